/* What `accumulators.c` offers to the other files. */

#ifndef BACKCAST_ACCUMULATORS_H
#define BACKCAST_ACCUMULATORS_H

#include "native.h"

#define UPDATE_SET_ONCE 1
#define UPDATE_SET 2

/* One entry: two texts (an id has one, its `other` is ""), and numbers by the kind of the accumulator. */
typedef struct {
    PyObject *one, *other; /* str */
    PyObject *value;       /* bytes; NULL where an accumulator has no values */
    uint64_t hash;
    int64_t numbers[4];
    int32_t kind;
    int32_t paired, updated; /* of an id: the entry where it was last found among pairs and properties, from 1; a guess */
} Entry;

typedef struct {
    PyObject_HEAD
    Entry *entries;
    Py_ssize_t used, room;
    int32_t *slots; /* a power of two of them; 0 is empty, n + 1 the n-th entry */
    uint64_t mask;
    Py_ssize_t bytes;
    PyObject *json_of;
} Accumulator;

int same_text(PyObject *one, PyObject *other);
/* The hash by which `prefetch_id` finds an id. */
uint64_t id_slot_hash(PyObject *id);
/* Prefetch the memory in which an id and its pairs and properties may lie, one step further each time, so that it is in
 * the cache when the id is added: waiting for it would cost more than everything else that is done with it. */
void prefetch_id(const Accumulator *ids, uint64_t hash, int step, const Accumulator *pairs, const Accumulator *properties);
#define PREFETCH_STEPS 4
/* Add an event with this id. Its entry, valid until something is added; NULL with an exception. */
Entry *accumulate_id(Accumulator *ids, PyObject *id, int64_t time, int user, int64_t place);
/* Add a row that pairs two ids. `guess` is the entry to try first, and receives the one found; or NULL. -1 with an
 * exception. */
int accumulate_pair(Accumulator *pairs, int32_t *guess, PyObject *anonymous, PyObject *user, int64_t kind, int64_t first, int64_t last,
              int64_t place);
/* Add a row that sets these values, or sets them once. `guess` is that of the first. -1 with an exception. */
int accumulate_properties(Accumulator *properties, int32_t *guess, int kind, PyObject *owner, PyObject *values, int64_t at, int64_t got);

#endif
