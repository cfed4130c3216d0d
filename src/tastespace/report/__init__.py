"""Figures, the HTML report of models and of evaluations, and the files of the web page.

Begin with `model_story.py`, which describes a model as plain values, then `model_page.py`; the `*_figures.py` share
`plotting.py`. May import selection and what is below; matplotlib and Plotly are imported where they are
used.
"""
