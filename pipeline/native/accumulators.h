/* What `accumulators.c` and `property_updates.c` offer to the other files. The rules of native.h about references and
 * exceptions apply. */

#ifndef BACKCAST_ACCUMULATORS_H
#define BACKCAST_ACCUMULATORS_H

#include "native.h"

#define UPDATE_NULL_ONCE 1
#define UPDATE_SET_ONCE 3
#define UPDATE_SET 5

/* What an accumulator stores of a key: the id; the anonymous and the user id of a pair; the owner and the name of a
 * property. The meaning of `numbers` and `kind` is given with each accumulate_ function. */
typedef struct {
    PyObject *text, *other; /* str, owned; `other` is "" for an id */
    PyObject *value;        /* bytes, owned; NULL where an accumulator has no values */
    uint64_t hash;
    int64_t numbers[4];
    int32_t kind;
    int32_t paired, updated; /* of an id: its last entry among pairs and properties, from 1; a guess, to be checked */
} Entry;

/* Limits: 2^31 - 1 entries. `bytes` counts the characters of texts and the bytes of values, for the caller's limit. */
typedef struct {
    PyObject_HEAD
    Entry *entries; /* an array of `room`, of which `used` are filled; it moves when an entry is added */
    Py_ssize_t used, room;
    int32_t *slots; /* `mask` + 1 of them, twice `room`; 0 is empty, n + 1 the n-th entry */
    uint64_t mask;
    Py_ssize_t bytes;
    PyObject *json_of; /* called with a value, returns bytes; NULL where an accumulator has no values; owned */
} Accumulator;

/* Whether two str are equal; they may be of any type that is laid out like a str. */
int same_text(PyObject *text, PyObject *other);
/* Whether two objects are str; TypeError otherwise. */
int are_texts(PyObject *text, PyObject *other);
/* A whole number of 64 bits; -1 with an exception. */
int number_of(PyObject *object, int64_t *number);
/* The entry of two str, NULL without an exception where there is none. `guess` is the number of the entry to try first,
 * or 0. */
Entry *find_entry(const Accumulator *self, int32_t guess, PyObject *text, PyObject *other);
/* The same; a new entry has no kind. It is valid until another is added; NULL with an exception. */
Entry *entry_of(Accumulator *self, int32_t guess, PyObject *text, PyObject *other);
/* The hash by which `prefetch_id` finds an id. */
uint64_t id_slot_hash(PyObject *id);
/* Prefetch the memory of an id and of its pairs and properties, one step further each time (`step` from 0 below
 * PREFETCH_STEPS), so that it is in the cache when the id is added: waiting for it would cost more than all other work
 * on the id. `pairs` and `properties` may be NULL. Never fails. */
void prefetch_id(const Accumulator *ids, uint64_t hash, int step, const Accumulator *pairs,
                 const Accumulator *properties);
#define PREFETCH_STEPS 4
/* Add an event with this id: `time` in µs, `position` that of its row. The entry is valid until something is added;
 * NULL with an exception. */
Entry *accumulate_id(Accumulator *ids, PyObject *id, int64_t time, int user, int64_t position);
/* Add a row that pairs two ids; `kind` is a bit from 1 to 2^30. `guess` is the entry to try first, and receives the
 * number of the pair's entry; or NULL. -1 with an exception. */
int accumulate_pair(Accumulator *pairs, int32_t *guess, PyObject *anonymous, PyObject *user, int64_t kind,
                    int64_t first, int64_t last, int64_t position);
/* Add a row that sets the values of a mapping for `owner` (UPDATE_SET), or sets them once. `guess` is that of the first
 * value. Calls `json_of`, and so Python, which may add entries. -1 with an exception. */
int accumulate_properties(Accumulator *properties, int32_t *guess, int kind, PyObject *owner, PyObject *mapping,
                          int64_t time, int64_t received);
/* set(owner, values, time, received), and set_once: methods of PropertyAccumulator. */
PyObject *set_properties(Accumulator *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *set_properties_once(Accumulator *self, PyObject *const *arguments, Py_ssize_t count);

#endif
