/* Counts what the properties of events are, by event name and month, from the text of the events as they are sent:
 * `pipeline.transform.drift` has the same in Python, and describes what is counted. */

#include "drift_tables.h"

#define DAY_US INT64_C(86400000000)
#define MOST_DISTINCT 64
#define LONG_TEXT 100

/* The month of a day; both since 1970. */
static int32_t
month_of(int64_t day)
{
    int64_t shifted = day + 719468; /* days since 1 March of the year 0 */
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t of_era = shifted - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t from_march = (5 * of_year + 2) / 153;
    return (int32_t)((era * 400 + year - 1970) * 12 + from_march + 2);
}

/* --- counting ---------------------------------------------------------------------------------------------- */

/* Put a hash among the `most` smallest ones, which ascend; there is room for it. */
static inline uint32_t
insert_hash(uint32_t *hashes, uint32_t used, uint32_t most, uint32_t hash)
{
    uint32_t low = 0, high = used;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (hashes[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < used && hashes[low] == hash)
        return used;
    if (used == most)
        used--;
    memmove(hashes + low + 1, hashes + low, (used - low) * sizeof(uint32_t));
    hashes[low] = hash;
    return used + 1;
}

static int
add_long(Entry *entry, uint32_t length, uint32_t hash, uint64_t place)
{
    LongTexts *texts = entry->texts;
    if (texts == NULL) {
        texts = entry->texts = PyMem_Calloc(1, sizeof(LongTexts));
        if (texts == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    texts->texts++;
    if (length < texts->longest)
        return 0;
    if (length > texts->longest) {
        texts->longest = length;
        texts->at_longest = texts->used = 0;
        texts->place = UINT64_MAX;
    }
    texts->at_longest++;
    if (place < texts->place)
        texts->place = place;
    if (texts->used < MOST_LONG || hash < texts->hashes[MOST_LONG - 1])
        texts->used = insert_hash(texts->hashes, texts->used, MOST_LONG, hash);
    return 0;
}

static int
add_value(Entry *entry, const char *at, const char *end, int32_t day, uint64_t place)
{
    int kind = kind_of(at, end);
    entry->counts[kind]++;
    if (place < entry->places[kind])
        entry->places[kind] = place;
    if (day < entry->first)
        entry->first = day;
    if (day > entry->last)
        entry->last = day;
    if (kind == MISSING || kind == BLANK)
        return 0;
    uint32_t hash = hash_of(at, (size_t)(end - at));
    if (entry->used < MOST_DISTINCT || hash < entry->hashes[MOST_DISTINCT - 1]) {
        if (entry->used == entry->room && entry->room < MOST_DISTINCT) {
            uint32_t room = entry->room ? entry->room * 4 : 4;
            uint32_t *larger = PyMem_Realloc(entry->hashes, room * sizeof(uint32_t));
            if (larger == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            entry->hashes = larger;
            entry->room = room;
        }
        entry->used = insert_hash(entry->hashes, entry->used, MOST_DISTINCT, hash);
    }
    if (kind == TEXT && end - at >= LONG_TEXT + 2) {
        uint32_t length = characters(at + 1, end - 1);
        if (length >= LONG_TEXT)
            return add_long(entry, length, hash, place);
    }
    return 0;
}

static const char BEGINNING[] = "{\"event\":", PROPERTIES[] = ",\"properties\":{\"distinct_id\":";

static inline const char *
expect(const char *at, const char *end, const char *text, size_t length)
{
    return at != NULL && (size_t)(end - at) > length && memcmp(at, text, length) == 0 ? at + length : NULL;
}

/* Count the properties of one event; 0, or -1 with an exception. */
static int
add_event(Drift *self, uint32_t number, const char *at, const char *end, int32_t day, uint64_t place)
{
    self->series[number].events++;
    at = expect(at, end, BEGINNING, sizeof(BEGINNING) - 1);
    at = at == NULL ? NULL : value_end(at, end);
    at = expect(at, end, PROPERTIES, sizeof(PROPERTIES) - 1);
    at = at == NULL ? NULL : value_end(at, end);
    uint32_t before = NONE;
    while (at != NULL && at < end && *at == ',') {
        at++;
        uint32_t guess = before == NONE ? self->series[number].first : self->entries[before].next;
        const Property *property = guess == NONE ? NULL : &self->properties[self->entries[guess].property];
        if (property == NULL || (size_t)(end - at) <= property->length ||
            memcmp(at, property->bytes, property->length) != 0) {
            const char *quote = *at == '"' ? text_end(at + 1, end) : NULL;
            if (quote == NULL || end - quote < 3 || quote[1] != ':')
                return PyErr_Format(PyExc_ValueError, "a property's name was expected"), -1;
            uint32_t spelled = drift_property(self, at, (uint32_t)(quote + 2 - at));
            guess = spelled == NONE ? NONE : drift_entry(self, number, spelled);
            if (guess == NONE)
                return -1;
            if (before == NONE)
                self->series[number].first = guess;
            else
                self->entries[before].next = guess;
            property = &self->properties[spelled];
        }
        at += property->length;
        const char *after = value_end(at, end);
        if (after == NULL)
            break;
        int own = property->flags == OWN ||
                  (property->flags == ADDRESS && after - at == 11 && memcmp(at, "\"127.0.0.1\"", 11) == 0);
        if (!own && add_value(&self->entries[guess], at, after, day, place) < 0)
            return -1;
        before = guess;
        for (at = after; at < end && (unsigned char)*at <= ' ';)
            at++;
    }
    if (at == NULL || at >= end || *at != '}')
        return PyErr_Format(PyExc_ValueError, "the text of an event was expected"), -1;
    return 0;
}

/* The number of an event's name, NONE with an exception. */
static uint32_t
name_number(Drift *self, PyObject *name)
{
    if (!PyUnicode_CheckExact(name)) {
        PyErr_SetString(PyExc_TypeError, "a name is a str");
        return NONE;
    }
    PyObject *known = PyDict_GetItemWithError(self->names, name);
    if (known != NULL)
        return (uint32_t)PyLong_AsUnsignedLong(known);
    Py_ssize_t count = PyList_GET_SIZE(self->texts);
    PyObject *number = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(count);
    int failed = number == NULL || PyDict_SetItem(self->names, name, number) < 0 || PyList_Append(self->texts, name) < 0;
    Py_XDECREF(number);
    return failed ? NONE : (uint32_t)count;
}

static int
add_all(Drift *self, PyObject *runs, const int64_t *sizes, const uint32_t *name_of, const int64_t *times,
        Py_ssize_t events, PyObject *names, PyObject *rows, uint64_t place)
{
    Py_ssize_t name_count = PyList_GET_SIZE(names), event = 0;
    uint32_t *numbers = PyMem_Malloc(((size_t)name_count + 1) * 2 * sizeof(uint32_t));
    uint32_t *latest = numbers + name_count; /* the series of the latest event of each name */
    if (numbers == NULL)
        return PyErr_NoMemory(), -1;
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < name_count; i++) {
        latest[i] = NONE;
        failed = (numbers[i] = name_number(self, PyList_GET_ITEM(names, i))) == NONE;
    }
    for (Py_ssize_t run = 0; !failed && run < PyList_GET_SIZE(runs); run++) {
        PyObject *text = PyList_GET_ITEM(runs, run);
        const char *at = PyBytes_CheckExact(text) ? PyBytes_AS_STRING(text) : NULL;
        const char *end = at == NULL ? NULL : at + PyBytes_GET_SIZE(text);
        while (!failed && at < end) {
            if (event == events || sizes[event] < 0 || end - at <= sizes[event] || name_of[event] >= name_count) {
                PyErr_SetString(PyExc_ValueError, "the sizes or names are not those of the events");
                failed = 1;
                break;
            }
            int64_t day = times[event] / DAY_US - (times[event] % DAY_US < 0);
            if (day != self->day) {
                self->day = day;
                self->month = month_of(day);
            }
            uint32_t name = name_of[event], series = latest[name];
            if (series == NONE || self->series[series].month != self->month)
                series = latest[name] = drift_series(self, numbers[name], self->month);
            long long row = PyLong_AsLongLong(PyList_GET_ITEM(rows, event));
            failed = series == NONE || (row == -1 && PyErr_Occurred()) ||
                     add_event(self, series, at, at + sizes[event], (int32_t)day, place + (uint64_t)row) < 0;
            at += sizes[event] + 1;
            event++;
        }
    }
    PyMem_Free(numbers);
    self->events += (uint64_t)event;
    return failed ? -1 : 0;
}

/* add(runs, sizes, names, name_of, times, rows, place) */
static PyObject *
add(Drift *self, PyObject *arguments)
{
    PyObject *runs, *names, *rows;
    Py_buffer sizes, name_of, times;
    unsigned long long place;
    if (!PyArg_ParseTuple(arguments, "O!y*O!y*y*O!K", &PyList_Type, &runs, &sizes, &PyList_Type, &names, &name_of,
                          &times, &PyList_Type, &rows, &place))
        return NULL;
    Py_ssize_t events = PyList_GET_SIZE(rows);
    int failed = 0;
    if (sizes.len != events * 8 || name_of.len != events * 4 || times.len != events * 8) {
        PyErr_SetString(PyExc_ValueError, "a size, a name, a time and a row of each event were expected");
        failed = 1;
    }
    failed = failed || add_all(self, runs, sizes.buf, name_of.buf, times.buf, events, names, rows, place) < 0;
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&name_of);
    PyBuffer_Release(&times);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* --- returning --------------------------------------------------------------------------------------------- */

/* (name as JSON, counts, places, first, last, hashes, texts, longest, at_longest, place, hashes): see _native.pyi */
static PyObject *
entry_tuple(const Drift *self, const Entry *entry)
{
    static const LongTexts none = {0, 0, UINT64_MAX, 0, 0, {0}};
    const Property *property = &self->properties[entry->property];
    const LongTexts *texts = entry->texts == NULL ? &none : entry->texts;
    return Py_BuildValue(
        "(y#y#y#iiy#KIKKy#)", property->bytes, (Py_ssize_t)property->length - 1, (const char *)entry->counts,
        (Py_ssize_t)sizeof(entry->counts), (const char *)entry->places, (Py_ssize_t)sizeof(entry->places), entry->first,
        entry->last, (const char *)(entry->hashes == NULL ? texts->hashes : entry->hashes),
        (Py_ssize_t)(entry->used * sizeof(uint32_t)), texts->texts, texts->longest, texts->at_longest, texts->place,
        (const char *)texts->hashes, (Py_ssize_t)(texts->used * sizeof(uint32_t)));
}

static PyObject *
series_tuple(const Drift *self, const Series *series)
{
    PyObject *entries = PyList_New(0);
    for (uint32_t i = 0; entries != NULL && series->slots != NULL && i <= series->mask; i++) {
        if (series->slots[i] == NONE || self->entries[series->slots[i]].first == INT32_MAX)
            continue; /* the import set this property in all events */
        PyObject *entry = entry_tuple(self, &self->entries[series->slots[i]]);
        if (entry == NULL || PyList_Append(entries, entry) < 0)
            Py_CLEAR(entries);
        Py_XDECREF(entry);
    }
    if (entries == NULL)
        return NULL;
    return Py_BuildValue("(OiKN)", PyList_GET_ITEM(self->texts, series->name), series->month,
                         (unsigned long long)series->events, entries);
}

/* take(): (event, month, events, entries) of each name and month since the previous call. */
static PyObject *
take(Drift *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *names = PyDict_New(), *texts = PyList_New(0), *all = PyList_New(0);
    for (uint32_t i = 0; all != NULL && i < self->series_count; i++) {
        PyObject *one = series_tuple(self, &self->series[i]);
        if (one == NULL || PyList_Append(all, one) < 0)
            Py_CLEAR(all);
        Py_XDECREF(one);
    }
    if (names == NULL || texts == NULL || all == NULL) {
        Py_XDECREF(names);
        Py_XDECREF(texts);
        Py_XDECREF(all);
        return NULL;
    }
    drift_clear(self);
    self->names = names;
    self->texts = texts;
    return all;
}

static Py_ssize_t
length(Drift *self)
{
    return self->entry_count;
}

static PyObject *
events(Drift *self, void *Py_UNUSED(nothing))
{
    return PyLong_FromUnsignedLongLong(self->events);
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    static char *keywords[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "", keywords))
        return NULL;
    Drift *self = (Drift *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->names = PyDict_New();
    self->texts = PyList_New(0);
    self->day = INT64_MIN;
    if (self->names == NULL || self->texts == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Drift *self)
{
    drift_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)add, METH_VARARGS, NULL},
    {"take", (PyCFunction)take, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getters[] = {
    {"events", (getter)events, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PySequenceMethods as_sequence = {.sq_length = (lenfunc)length};

PyTypeObject Drift_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Drift",
    .tp_basicsize = sizeof(Drift),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_sequence = &as_sequence,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
    .tp_methods = methods,
    .tp_getset = getters,
};
