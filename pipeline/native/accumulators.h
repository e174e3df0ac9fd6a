/* What `accumulators.c` gives to the other files. */

#ifndef BACKCAST_ACCUMULATORS_H
#define BACKCAST_ACCUMULATORS_H

#include "native.h"

#define UPDATE_SET_ONCE 1
#define UPDATE_SET 2

/* One thing that is folded: two texts (an id has one, its `other` is ""), and numbers by the kind of the fold. */
typedef struct {
    PyObject *one, *other; /* str */
    PyObject *value;       /* bytes; NULL where a fold has no values */
    uint64_t hash;
    int64_t numbers[4];
    int32_t kind;
    int32_t paired, updated; /* of an id: where it was last found in Pairs and Properties, from 1; a guess, never trusted */
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
/* What follows finds an id by this. */
uint64_t id_slot_hash(PyObject *id);
/* Ask for the memory in which an id and what was said of it may lie, a step further each time, so that it is at hand
 * when the id is seen: it lies far apart, and waiting for it would cost more than all else that is done with it. */
void prefetch_id(const Accumulator *ids, uint64_t hash, int step, const Accumulator *pairs, const Accumulator *properties);
#define PREFETCH_STEPS 4
/* One event has this id. Its entry, until the fold hears more; NULL with an exception. */
Entry *accumulate_id(Accumulator *ids, PyObject *id, int64_t time, int user, int64_t place);
/* One row pairs two ids. `guess` is where they may stand, and is told where they do; or NULL. -1 with an exception. */
int accumulate_pair(Accumulator *pairs, int32_t *guess, PyObject *anonymous, PyObject *user, int64_t kind, int64_t first, int64_t last,
              int64_t place);
/* One row sets these values, or sets them once. `guess` is of the first of them. -1 with an exception. */
int accumulate_properties(Accumulator *properties, int32_t *guess, int kind, PyObject *owner, PyObject *values, int64_t at, int64_t got);

#endif
