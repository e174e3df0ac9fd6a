"""The page of the local service: what landed, for a person with a browser.

It is rendered here and needs no script, no key and nothing from elsewhere. It answers to loopback host names only
(see `guard`), every list of it is bounded, and no key of the service is shown.
"""
