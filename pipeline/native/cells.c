/* The cells of a delimited row: as Members, some of which may be objects of several cells, or as one JSON object. */

#include "native.h"

#define MOST_OBJECTS 16

typedef struct {
    Py_ssize_t column;
    Py_ssize_t object; /* -1 for a member outside any object */
    Name *name;
} Place;

typedef struct {
    PyObject_HEAD
    Place *places;
    Py_ssize_t count, columns;
    Name *objects[MOST_OBJECTS];
    Py_ssize_t object_count;
    int whole;  /* all places are members of one object, which is returned as bytes */
    int blanks; /* whether an empty string is a value */
    int always; /* whether an object without members is kept */
    vectorcallfunc call;
} Cells;

/* What a row's cells are read from: a list of str, or spans of `owner`. */
typedef struct {
    PyObject *list;
    const Span *spans;
    PyObject *owner;
} Source;

/* The str of a column; TypeError for anything else. */
static PyObject *
cell_of(const Source *source, Py_ssize_t column)
{
    if (source->list == NULL)
        return text_of_span(&source->spans[column]);
    PyObject *cell = PyList_GET_ITEM(source->list, column);
    if (!PyUnicode_CheckExact(cell))
        return PyErr_Format(PyExc_TypeError, "a cell is a str");
    return Py_NewRef(cell);
}

/* Set a member of the object that a place is in, which is created with its first member. */
static int
put_inside(const Place *place, PyObject *cell, PyObject **found, Py_ssize_t *order, Py_ssize_t *count)
{
    PyObject **object = &found[place->object];
    if (*object == NULL) {
        if ((*object = PyDict_New()) == NULL)
            return -1;
        order[(*count)++] = place->object;
    }
    return PyDict_SetItem(*object, place->name->text, cell);
}

/* A row's members outside objects, then its objects, which are dicts. */
static int
take_cells(Cells *self, Members *row, const Source *source)
{
    PyObject *found[MOST_OBJECTS] = {NULL};
    Py_ssize_t order[MOST_OBJECTS], count = 0;
    int done = -1;
    Member *member;
    if (self->always)
        for (; count < self->object_count; count++) {
            if ((found[count] = PyDict_New()) == NULL)
                goto end;
            order[count] = count;
        }
    for (const Place *place = self->places, *end = place + self->count; place < end; place++) {
        const Span *span = source->list == NULL ? &source->spans[place->column] : NULL;
        if (span != NULL && !self->blanks && span->length == 0)
            continue;
        if (span != NULL && !span->doubled && place->object < 0) {
            if ((member = members_add(row)) == NULL)
                goto end;
            *member = (Member){.name = place->name, .cell = span->at, .length = span->length};
            continue;
        }
        PyObject *cell = cell_of(source, place->column);
        if (cell == NULL)
            goto end;
        if (!self->blanks && PyUnicode_GET_LENGTH(cell) == 0) {
            Py_DECREF(cell);
            continue;
        }
        if (place->object >= 0) {
            int put = put_inside(place, cell, found, order, &count);
            Py_DECREF(cell);
            if (put < 0)
                goto end;
            continue;
        }
        if ((member = members_add(row)) == NULL) {
            Py_DECREF(cell);
            goto end;
        }
        *member = (Member){.name = place->name, .value = cell};
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if ((member = members_add(row)) == NULL)
            goto end;
        *member = (Member){.name = self->objects[order[i]], .value = Py_NewRef(found[order[i]])};
    }
    done = 0;
end:
    for (Py_ssize_t i = 0; i < MOST_OBJECTS; i++)
        Py_XDECREF(found[i]);
    return done;
}

static PyObject *
members_of(Cells *self, const Source *source)
{
    Members *row = members_new(source->owner);
    if (row != NULL && take_cells(self, row, source) < 0)
        Py_CLEAR(row);
    return (PyObject *)row;
}

PyObject *
members_of_spans(PyObject *cells, const Span *spans, PyObject *owner)
{
    Source source = {NULL, spans, owner};
    return members_of((Cells *)cells, &source);
}

Py_ssize_t
columns_of(PyObject *cells)
{
    const Cells *self = (const Cells *)cells;
    return self->whole ? -1 : self->columns;
}

/* All places as one object of JSON. */
static PyObject *
write_cells(Cells *self, PyObject *cells)
{
    Py_ssize_t total = self->count ? 1 : 2, length; /* the first comma becomes the opening bracket */
    for (const Place *place = self->places, *end = place + self->count; place < end; place++) {
        PyObject *cell = PyList_GET_ITEM(cells, place->column);
        const char *at = PyUnicode_AsUTF8AndSize(cell, &length); /* TypeError for anything else */
        if (at == NULL)
            return NULL;
        total += PyBytes_GET_SIZE(place->name->written) + quoted_length(at, length);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, total);
    if (bytes == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(bytes) + !self->count;
    for (const Place *place = self->places, *end = place + self->count; place < end; place++) {
        Py_ssize_t written = PyBytes_GET_SIZE(place->name->written);
        const char *at = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(cells, place->column), &length);
        memcpy(to, PyBytes_AS_STRING(place->name->written), (size_t)written);
        to = write_quoted(to + written, at, length);
    }
    *to = '}';
    *PyBytes_AS_STRING(bytes) = '{';
    return bytes;
}

/* cells(list) */
static PyObject *
read_cells(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Cells *self = (Cells *)callable;
    if (PyVectorcall_NARGS(flags) != 1 || named != NULL || !PyList_CheckExact(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "a list was expected");
    PyObject *cells = arguments[0]; /* nothing here runs Python, so the list cannot change */
    if (PyList_GET_SIZE(cells) != self->columns)
        return PyErr_Format(PyExc_ValueError, "%zd cells were expected, not %zd", self->columns,
                            PyList_GET_SIZE(cells));
    if (self->whole)
        return write_cells(self, cells);
    Source source = {cells, NULL, NULL};
    return members_of(self, &source);
}

static int
take_objects(Cells *self, PyObject *objects)
{
    if (PyTuple_GET_SIZE(objects) > MOST_OBJECTS) {
        PyErr_Format(PyExc_ValueError, "at most %d objects were expected", MOST_OBJECTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++)
        if ((self->objects[self->object_count++] = name_of(PyTuple_GET_ITEM(objects, i))) == NULL)
            return -1;
    return 0;
}

static int
take_places(Cells *self, PyObject *places)
{
    self->places = PyMem_Calloc((size_t)PyTuple_GET_SIZE(places) + 1, sizeof(Place));
    if (self->places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++) {
        Place *place = &self->places[self->count++];
        PyObject *name, *given = PyTuple_GET_ITEM(places, i);
        if (!PyTuple_Check(given) || !PyArg_ParseTuple(given, "nnU", &place->column, &place->object, &name))
            return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "a place is a tuple"), -1);
        if (place->column < 0 || place->column >= self->columns || place->object < (self->whole ? 0 : -1) ||
            place->object >= (self->whole ? 1 : self->object_count)) {
            PyErr_SetString(PyExc_ValueError, "there is no such column or object");
            return -1;
        }
        if ((place->name = name_of(name)) == NULL)
            return -1;
    }
    return 0;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *places, *objects = NULL;
    Py_ssize_t columns;
    int blanks = 0, always = 0;
    static char *keywords[] = {"columns", "places", "objects", "blanks", "always", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "nO!|O!pp", keywords, &columns, &PyTuple_Type, &places,
                                     &PyTuple_Type, &objects, &blanks, &always))
        return NULL;
    Cells *self = (Cells *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = read_cells;
    self->columns = columns;
    self->whole = objects == NULL;
    self->blanks = blanks;
    self->always = always;
    if ((objects != NULL && take_objects(self, objects) < 0) || take_places(self, places) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Cells *self)
{
    PyMem_Free(self->places);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Cells_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Cells",
    .tp_basicsize = sizeof(Cells),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Cells, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
