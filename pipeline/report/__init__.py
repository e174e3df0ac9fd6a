"""What people and programs read: the terminal, JSON and HTML, each from the same value.

Text of an export is shown printable and cut; in reports that leave the terminal, values of properties are masked
and ids are not, since a row is found again by them.
"""
