"""One module per API. Each has `handle(broker, context, request)`, which returns the response, or an awaitable of it
where it must wait; `server.dispatch` names them."""
