"""The routes of the HTTP API and of the web page, one file per subject."""
