"""The HTTP service: it queries a fitted model (fold-in, index, policy), and never trains in a request.

Begin with `app.py`, then `answering.py`, from a request to its answer; `routes/` has the endpoints, `store.py` the
database, `live_model.py` the current model. May import report, evaluation, artifact, models and what is below.
"""
