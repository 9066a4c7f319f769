"""The controller's rules: a request and the image in, records and a response out. Nothing here changes anything."""
