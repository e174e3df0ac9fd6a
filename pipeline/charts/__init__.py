"""Pictures for pages: pure functions from counts to inline SVG, without a script.

The report of a plan, the page of a survey and the page of the local service share them. An SVG here has shapes, numbers
and dates only, never a text of an export, so that a page can include it as it is. It stretches to the width that it is
given; whatever is to be read stands beside it as HTML, at places in percent of that width (`templates/`). Colours are
custom properties of the page's style sheet, to which `charts.css` is added.
"""
