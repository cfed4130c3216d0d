"""The command line: each file in `verbs/` has the verbs of one subject.

Begin with `main.py`, which lists the verbs and turns errors into messages; `options.py` has what they share,
`console.py` their output. May import any room but `testing`; nothing imports this one. Verbs are imported when they are
called.
"""
