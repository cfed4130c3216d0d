"""The door of the service: who may ask, how much at a time, and what every request and response passes.

`connections.py` limits connections before there is a request, `middleware.py` wraps every request, `access.py` has keys
and scopes, `limits.py` how much work one client may ask for. May import the rest of the service, except for its routes.
"""
