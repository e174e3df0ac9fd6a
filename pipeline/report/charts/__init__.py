"""Pictures of a report: pure functions from counts to inline SVG, without a script.

An SVG here has shapes, numbers and dates only, never a text of an export, so that a page can include it as it is. It
stretches to the width that it is given; whatever is to be read stands beside it as HTML, at places in percent of that
width. Colours are the classes of the page's style sheet.
"""
