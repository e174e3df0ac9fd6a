"""Two mappings with features that the shipped ones rarely use, and rows of them, to compare C and Python."""

EVERYTHING = r"""
format: backcast.mapping/1
tool: shop
title: all that changes properties
settings: {groups: the group properties}
event: /name
events:
  Seen: {as: $pageview, rename: {page: $pathname, gone: kept}, drop: [noise], fill: {kind: {const: seen}}}
  Left: {skip: left}
  Bought: {set: {total: price}, rename: {price: amount}}
  merge: {link: {kind: alias, distinct_id: /user, other: other}}
skip: [{when: {is: "true", of: test}, code: test_row}]
distinct_id: {first: [/user, device]}
time: [{from: at, unit: auto, zone: project}, {from: /when, space: yes, zone: utc}]
received: [{from: got, unit: ms}]
key: {of: [/name, at, id], needs: [id]}
groups: {setting: groups}
properties:
  open: /properties
  drop: [at, noise, "é"]
  rename: {page: $screen_name, city: $geoip_city_name, region: $geoip_city_name, b: c, "a b": ab}
  set: {title: {first: [title, /title]}, size: {type: number, of: size}}
  fill: {lang: /lang}
  types: {count: number}
  spread: [{from: more, prefix: more_, blank: [EMPTY]}]
  blank: [{values: ["", "NA"], in: [utm_source, city]}]
person: {set_once: {first: first_page, ref: page}, set: {plan: plan}}
"""
FLAT = r"""
format: backcast.mapping/1
tool: flat
title: columns alone
event: name
distinct_id: user
time: {from: at, unit: s}
key: {of: [id], needs: [id]}
properties: {rename: {city: $geoip_city_name}, drop: [noise]}
"""

ROWS = {
    "everything": [
        b'{"name":"Seen","user":"u-1","title":"T","lang":"de","odd":1.10,"properties":{"at":1672531358,"id":"i-1","page":"/a",'
        b'"$pathname":"/b","city":"Bonn","utm_source":"","more":{"x":1,"e":"EMPTY"},"plan":"pro","team":"t-1","b":1,"count":"7"}}',
        b'{"name":"Bought","user":"u-2","properties":{"at":1672531358.25,"id":"i-2","price":1.10,"amount":2,"total":"9",'
        b'"size":"12.50","first_page":"/","a b":true,"ab":false,"noise":0}}',
        b'{"name":"merge","user":"u-3","properties":{"at":1672531358123,"id":"i-3","other":"d-3"}}',
        b'{"name":"Left","user":"u-4","properties":{"at":1672531358,"id":"i-4"}}',
        b'{"name":"Else","user":"","when":"2023-10-29 02:30:00","city":"x","properties":'
        b'{"device":"d-5","id":"i-5","got":1672531359000,'
        rb'"c":3,"b":4,"region":"NA","city":"K\u00f6ln","kind":"own","gone":1,"kept":2,"$ip":"1.2.3.4","$set":{"a":1}}}',
    ],
    "flat": [
        b'{"name":"Seen","user":"u-1","at":1672531358,"id":"i-1","city":"Bonn","noise":1,"a":1.10,"$ip":"1.2.3.4"}',
        rb'{"name":"Seen","user":"u-2","at":1672531359.5,"id":"i-2","$geoip_city_name":"Bonn","city":"K\u00f6ln","$set":{"a":1}}',
        b'{"name":"Left","user":"u-1","at":"1672531360","id":"","b":[1,{"c":12345678901234567890}],"$groups":{"team":"t","n":5}}',
    ],
}
"""Rows for them, as their tool would write them."""
