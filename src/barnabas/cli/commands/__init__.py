"""One module for each command, with `app` in it: a noun with its verbs, or a single command."""
