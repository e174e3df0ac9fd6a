/* What `folds.c` gives to the other files. */

#ifndef BACKCAST_FOLDS_H
#define BACKCAST_FOLDS_H

#include "native.h"

#define FOLD_SET_ONCE 1
#define FOLD_SET 2

typedef struct Entry Entry;

typedef struct {
    PyObject_HEAD
    Entry *entries;
    Py_ssize_t used, room;
    int32_t *slots; /* a power of two of them; 0 is empty, n + 1 the n-th entry */
    uint64_t mask;
    Py_ssize_t bytes;
    PyObject *json_of;
} Fold;

int same_text(PyObject *one, PyObject *other);
/* One row pairs two ids. -1 with an exception. */
int fold_hear(Fold *pairs, PyObject *anonymous, PyObject *user, int64_t kind, int64_t first, int64_t last, int64_t place);
/* One row sets these values, or sets them once. -1 with an exception. */
int fold_say(Fold *properties, int kind, PyObject *owner, PyObject *values, int64_t at, int64_t got);

#endif
