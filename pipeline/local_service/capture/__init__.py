"""The capture endpoint: from the body of a request to rows for the store.

`endpoint` answers requests, `decoding` undoes base64, forms and gzip, `parsing` recognises the shapes of a body,
`validation` checks each event and creates its row, `timestamps` decides when an event happened.
"""
