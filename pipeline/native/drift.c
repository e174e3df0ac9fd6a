/* Counts what the properties of events are, by event name and month, from the text of the events as they are sent:
 * `pipeline.transform.drift` has the same in Python, and describes what is counted. */

#include "native.h"

#define NONE UINT32_MAX
#define DAY_US INT64_C(86400000000)
#define MOST_DISTINCT 64
#define MOST_LONG 8
#define LONG_TEXT 100
#define LONGEST_NUMBER 20
#define SAFE_DIGITS 16
#define SAFE_INTEGER 9007199254740992u

enum { MISSING, BLANK, TEXT, NUMERIC, INTEGER, LARGE, DECIMAL, BOOLEAN, OBJECT, LIST, KINDS };
enum { OWN = 1, ADDRESS = 2 }; /* a name that the import sets itself; the name of the address, which it may set */

typedef struct {
    char *bytes; /* with quotes and colon, as in the text */
    uint32_t length, hash;
    int flags;
} Property;

typedef struct {
    uint64_t at_longest, texts, place;
    uint32_t longest, used;
    uint32_t hashes[MOST_LONG];
} LongTexts;

/* One property of one event name in one month. */
typedef struct {
    uint64_t counts[KINDS], places[KINDS];
    uint32_t *hashes; /* the smallest ones, ascending */
    LongTexts *texts; /* NULL where no text is long */
    uint32_t property;
    uint32_t next; /* the entry that came after this one in the latest event, or NONE */
    uint32_t used, room;
    int32_t first, last; /* days */
} Entry;

typedef struct {
    uint64_t events;
    uint32_t *slots; /* entries by property, open addressing, NONE where there is none */
    uint32_t mask, used;
    uint32_t first; /* the entry of the first property of the latest event, or NONE */
    uint32_t name;
    int32_t month;
} Series;

typedef struct {
    PyObject_HEAD
    PyObject *names; /* dict: event name -> number */
    PyObject *texts; /* list of event names by number */
    Series *series;
    Entry *entries;
    Property *properties;
    uint32_t *series_slots, *property_slots;
    uint32_t series_count, series_room, series_mask;
    uint32_t entry_count, entry_room;
    uint32_t property_count, property_room, property_mask;
    uint64_t events;
    int64_t day; /* the day of the previous event, and its month */
    int32_t month;
} Drift;

/* --- hashes ------------------------------------------------------------------------------------------------ */

static inline uint32_t
read4(const char *at)
{
    uint32_t four;
    memcpy(&four, at, 4);
    return four;
}

static inline uint32_t
rotate(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

/* XXH32 with the seed 0, as `xxhash.xxh32_intdigest` computes it. */
static uint32_t
hash_of(const char *at, size_t length)
{
    const uint32_t p1 = 2654435761u, p2 = 2246822519u, p3 = 3266489917u, p4 = 668265263u, p5 = 374761393u;
    const char *end = at + length;
    uint32_t hash = p5;
    if (length >= 16) {
        uint32_t lanes[4] = {p1 + p2, p2, 0, 0u - p1};
        for (; end - at >= 16; at += 16)
            for (int lane = 0; lane < 4; lane++)
                lanes[lane] = rotate(lanes[lane] + read4(at + 4 * lane) * p2, 13) * p1;
        hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    }
    hash += (uint32_t)length;
    for (; end - at >= 4; at += 4)
        hash = rotate(hash + read4(at) * p3, 17) * p4;
    for (; at < end; at++)
        hash = rotate(hash + (unsigned char)*at * p5, 11) * p1;
    hash = (hash ^ hash >> 15) * p2;
    hash = (hash ^ hash >> 13) * p3;
    return hash ^ hash >> 16;
}

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

/* --- the syntax of an event, which this program wrote ------------------------------------------------------ */

/* The closing quote of a text whose first character is at `at`; NULL without one. */
static inline const char *
text_end(const char *at, const char *end)
{
    for (const char *from = at; from < end; from++) {
        from = memchr(from, '"', (size_t)(end - from));
        if (from == NULL)
            return NULL;
        const char *before = from;
        while (before > at && before[-1] == '\\')
            before--;
        if ((from - before) % 2 == 0)
            return from;
    }
    return NULL;
}

/* What follows a value; NULL where the value does not end. */
static const char *
value_end(const char *at, const char *end)
{
    if (at < end && *at == '"')
        return (at = text_end(at + 1, end)) == NULL ? NULL : at + 1;
    if (at < end && (*at == '{' || *at == '[')) {
        for (int depth = 0; at < end; at++) {
            if (*at == '"') {
                if ((at = text_end(at + 1, end)) == NULL)
                    return NULL;
            } else if (*at == '{' || *at == '[') {
                depth++;
            } else if ((*at == '}' || *at == ']') && --depth == 0) {
                return at + 1;
            }
        }
        return NULL;
    }
    const char *first = at;
    while (at < end && *at != ',' && *at != '}' && (unsigned char)*at > ' ')
        at++;
    return at == first || at == end ? NULL : at;
}

static inline int
is_digit(char character)
{
    return character >= '0' && character <= '9';
}

/* BLANK, NUMERIC or TEXT: a number without exponent, and without a zero before it, is numeric. */
static int
kind_of_text(const char *at, const char *end)
{
    if (at == end)
        return BLANK;
    if (*at == ' ') {
        while (at < end && *at == ' ')
            at++;
        return at == end ? BLANK : TEXT;
    }
    if (!(is_digit(*at) || *at == '-') || end - at > LONGEST_NUMBER)
        return TEXT;
    if (*at == '-')
        at++;
    if (at == end || !is_digit(*at) || (*at == '0' && end - at > 1 && at[1] != '.'))
        return TEXT;
    while (at < end && is_digit(*at))
        at++;
    if (at < end && *at == '.') {
        if (++at == end)
            return TEXT;
        while (at < end && is_digit(*at))
            at++;
    }
    return at == end ? NUMERIC : TEXT;
}

static int
kind_of_number(const char *at, const char *end)
{
    if (*at == '-')
        at++;
    uint64_t number = 0;
    Py_ssize_t digits = end - at;
    for (const char *digit = at; digit < end; digit++) {
        if (!is_digit(*digit))
            return DECIMAL;
        if (digits <= SAFE_DIGITS)
            number = number * 10 + (uint64_t)(*digit - '0');
    }
    return digits > SAFE_DIGITS || number > SAFE_INTEGER ? LARGE : INTEGER;
}

static int
kind_of(const char *at, const char *end)
{
    switch (*at) {
    case '"':
        return kind_of_text(at + 1, end - 1);
    case 'n':
        return MISSING;
    case 't':
    case 'f':
        return BOOLEAN;
    case '{':
        return OBJECT;
    case '[':
        return LIST;
    default:
        return kind_of_number(at, end);
    }
}

/* The characters of a text; the escapes of a surrogate pair are one. */
static uint32_t
characters(const char *at, const char *end)
{
    uint32_t count = 0;
    for (; at < end; at++) {
        if (*at == '\\') {
            at++;
            if (*at == 'u' && end - at > 4) {
                int low = (at[1] | 32) == 'd' && (at[2] | 32) >= 'c' && (at[2] | 32) <= 'f';
                at += 4;
                if (low)
                    continue;
            }
        }
        count += ((unsigned char)*at & 0xC0) != 0x80;
    }
    return count;
}

/* --- the tables -------------------------------------------------------------------------------------------- */

static int
grow(void *array, uint32_t *room, uint32_t used, size_t size)
{
    if (used < *room)
        return 0;
    uint32_t more = *room ? *room * 2 : 64;
    void *larger = PyMem_Realloc(*(void **)array, (size_t)more * size);
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *(void **)array = larger;
    *room = more;
    return 0;
}

/* Double a table of slots that is half full: `again` says into which slot a number goes first. */
static int
grow_slots(uint32_t **slots, uint32_t *mask, uint32_t used, uint32_t (*again)(const void *, uint32_t), const void *of)
{
    if (*slots != NULL && used * 2 <= *mask)
        return 0;
    uint32_t room = *slots == NULL ? 16 : (*mask + 1) * 2;
    uint32_t *larger = PyMem_Malloc(room * sizeof(uint32_t));
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(larger, 0xFF, room * sizeof(uint32_t));
    for (uint32_t i = 0; *slots != NULL && i <= *mask; i++)
        if ((*slots)[i] != NONE) {
            uint32_t slot = again(of, (*slots)[i]) & (room - 1);
            while (larger[slot] != NONE)
                slot = (slot + 1) & (room - 1);
            larger[slot] = (*slots)[i];
        }
    PyMem_Free(*slots);
    *slots = larger;
    *mask = room - 1;
    return 0;
}

static inline uint32_t
spread(uint32_t number)
{
    return (number * 2654435761u) >> 7;
}

static uint32_t
slot_of_property(const void *self, uint32_t number)
{
    return ((const Drift *)self)->properties[number].hash;
}

static uint32_t
slot_of_entry(const void *self, uint32_t number)
{
    return spread(((const Drift *)self)->entries[number].property);
}

static uint32_t
slot_of_series(const void *self, uint32_t number)
{
    const Series *series = &((const Drift *)self)->series[number];
    return spread(series->name * 4096u + (uint32_t)series->month);
}

static int
flags_of(const char *at, uint32_t length)
{
    static const char *const own[] = {"\"$geoip_disable\":", "\"distinct_id\":", "\"historical_migration\":",
                                      "\"analytics_source\":", "\"import_name\":"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (length == strlen(own[i]) && memcmp(at, own[i], length) == 0)
            return OWN;
    return length == 6 && memcmp(at, "\"$ip\":", 6) == 0 ? ADDRESS : 0;
}

/* The number of a property that is spelled so, with quotes and colon; NONE with an exception. */
static uint32_t
property_of(Drift *self, const char *at, uint32_t length)
{
    if (grow_slots(&self->property_slots, &self->property_mask, self->property_count, slot_of_property, self) < 0)
        return NONE;
    uint32_t hash = hash_of(at, length), slot = hash & self->property_mask, number;
    for (; (number = self->property_slots[slot]) != NONE; slot = (slot + 1) & self->property_mask) {
        const Property *known = &self->properties[number];
        if (known->hash == hash && known->length == length && memcmp(known->bytes, at, length) == 0)
            return number;
    }
    if (grow(&self->properties, &self->property_room, self->property_count, sizeof(Property)) < 0)
        return NONE;
    char *copy = PyMem_Malloc(length);
    if (copy == NULL) {
        PyErr_NoMemory();
        return NONE;
    }
    memcpy(copy, at, length);
    self->properties[self->property_count] = (Property){copy, length, hash, flags_of(at, length)};
    return self->property_slots[slot] = self->property_count++;
}

static uint32_t
entry_of(Drift *self, uint32_t at, uint32_t property)
{
    Series *series = &self->series[at];
    if (grow_slots(&series->slots, &series->mask, series->used, slot_of_entry, self) < 0)
        return NONE;
    uint32_t slot = spread(property) & series->mask, number;
    for (; (number = series->slots[slot]) != NONE; slot = (slot + 1) & series->mask)
        if (self->entries[number].property == property)
            return number;
    if (grow(&self->entries, &self->entry_room, self->entry_count, sizeof(Entry)) < 0)
        return NONE;
    Entry *entry = &self->entries[self->entry_count];
    memset(entry, 0, sizeof(Entry));
    memset(entry->places, 0xFF, sizeof(entry->places));
    entry->property = property;
    entry->next = NONE;
    entry->first = INT32_MAX;
    entry->last = INT32_MIN;
    series->used++;
    return series->slots[slot] = self->entry_count++;
}

static uint32_t
series_of(Drift *self, uint32_t name, int32_t month)
{
    if (grow_slots(&self->series_slots, &self->series_mask, self->series_count, slot_of_series, self) < 0)
        return NONE;
    uint32_t slot = spread(name * 4096u + (uint32_t)month) & self->series_mask, number;
    for (; (number = self->series_slots[slot]) != NONE; slot = (slot + 1) & self->series_mask)
        if (self->series[number].name == name && self->series[number].month == month)
            return number;
    if (grow(&self->series, &self->series_room, self->series_count, sizeof(Series)) < 0)
        return NONE;
    self->series[self->series_count] = (Series){.first = NONE, .name = name, .month = month};
    return self->series_slots[slot] = self->series_count++;
}

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
            uint32_t spelled = property_of(self, at, (uint32_t)(quote + 2 - at));
            guess = spelled == NONE ? NONE : entry_of(self, number, spelled);
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
                series = latest[name] = series_of(self, numbers[name], self->month);
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

static void
clear(Drift *self)
{
    for (uint32_t i = 0; i < self->entry_count; i++) {
        PyMem_Free(self->entries[i].hashes);
        PyMem_Free(self->entries[i].texts);
    }
    for (uint32_t i = 0; i < self->property_count; i++)
        PyMem_Free(self->properties[i].bytes);
    for (uint32_t i = 0; i < self->series_count; i++)
        PyMem_Free(self->series[i].slots);
    PyMem_Free(self->entries);
    PyMem_Free(self->properties);
    PyMem_Free(self->series);
    PyMem_Free(self->property_slots);
    PyMem_Free(self->series_slots);
    self->entries = NULL;
    self->properties = NULL;
    self->series = NULL;
    self->property_slots = self->series_slots = NULL;
    self->entry_count = self->entry_room = self->property_count = self->property_room = 0;
    self->series_count = self->series_room = self->series_mask = self->property_mask = 0;
    self->events = 0;
    self->day = INT64_MIN;
    Py_CLEAR(self->names);
    Py_CLEAR(self->texts);
}

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
    clear(self);
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
    clear(self);
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
