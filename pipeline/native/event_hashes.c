/* Hashes of each event of a filled run, as `pipeline.encoder.fingerprints` describes them. */

#include "native.h"
#include "xxh3.h"

enum { TAIL = sizeof("\",\"uuid\":\"") - 1 + 36 + 3 }; /* what follows the time of an event, its comma included */
enum { EVENT_NAME = sizeof("{\"event\":") - 1 };
#define FACTOR UINT64_C(0x9E3779B97F4A7C15)

static const char properties[] = ",\"properties\":{", no_profile[] = "\"$process_person_profile\":false,",
                  before_id[] = "\"distinct_id\":";

/* What follows a literal at `text`; NULL where `text` is NULL or another text. */
#define AFTER_LITERAL(text, end, literal)                                                                              \
    ((text) != NULL && (end) - (text) >= (Py_ssize_t)sizeof(literal) - 1 &&                                            \
             memcmp((text), (literal), sizeof(literal) - 1) == 0                                                       \
         ? (text) + sizeof(literal) - 1                                                                                \
         : NULL)

static inline uint64_t
mix(uint64_t hash, const char *text, size_t length)
{
    uint64_t word = 0;
    memcpy(&word, text, length);
    hash = (hash ^ word) * FACTOR;
    return hash ^ hash >> 29;
}

/* A hash of 64 bits, of long texts in four lanes that do not wait for each other. It only groups equal texts, within
 * one plan. */
static uint64_t
hash_of(const char *text, const char *end)
{
    uint64_t hash = (uint64_t)(end - text), lanes[4] = {1, 2, 3, 4};
    if (end - text >= 32) {
        for (; end - text >= 32; text += 32)
            for (int lane = 0; lane < 4; lane++)
                lanes[lane] = mix(lanes[lane], text + 8 * lane, 8);
        for (int lane = 0; lane < 4; lane++)
            hash = (hash ^ lanes[lane]) * FACTOR, hash ^= hash >> 29;
    }
    for (; end - text >= 8; text += 8)
        hash = mix(hash, text, 8);
    hash = mix(hash, text, (size_t)(end - text));
    hash = (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return hash ^ hash >> 32;
}

/* The end of a JSON string that begins at `text`, behind its quote; NULL where it does not end. */
static const char *
string_end(const char *text, const char *end)
{
    if (text >= end || *text != '"')
        return NULL;
    for (text++; text < end; text++) {
        if (*text == '"')
            return text + 1;
        text += *text == '\\';
    }
    return NULL;
}

/* Hash the distinct_id of an event and everything before its time; -1 without an exception where it is no event. `end`
 * is behind its comma. */
static int
hash_parts(const char *start, const char *end, uint64_t hashes[2])
{
    if (end - start < EVENT_NAME + TAIL)
        return -1;
    const char *time = end - TAIL, *id = string_end(start + EVENT_NAME, time);
    id = AFTER_LITERAL(id, time, properties);
    const char *flag = AFTER_LITERAL(id, time, no_profile);
    id = flag != NULL ? flag : id;
    id = AFTER_LITERAL(id, time, before_id);
    const char *id_end = id == NULL ? NULL : string_end(id, time);
    if (id_end == NULL)
        return -1;
    while (time > id_end && time[-1] != '"')
        time--;
    hashes[0] = hash_of(id, id_end);
    hashes[1] = hash_of(start, time);
    return 0;
}

/* Four hashes of each event of a run, or with `parts` the last two of them. */
static PyObject *
hash_run(PyObject *const *arguments, Py_ssize_t count, int parts)
{
    if (count != 2 || !PyBytes_CheckExact(arguments[0]) || !PyBytes_CheckExact(arguments[1]) ||
        PyBytes_GET_SIZE(arguments[1]) % (Py_ssize_t)sizeof(int64_t))
        return PyErr_Format(PyExc_TypeError, "a run and ends were expected");
    const char *run = PyBytes_AS_STRING(arguments[0]), *start = run, *behind = run + PyBytes_GET_SIZE(arguments[0]);
    Py_ssize_t events = PyBytes_GET_SIZE(arguments[1]) / (Py_ssize_t)sizeof(int64_t);
    size_t size = (parts ? 2 : 4) * sizeof(uint64_t);
    if ((size_t)events > PY_SSIZE_T_MAX / size)
        return PyErr_NoMemory();
    PyObject *hashes = PyBytes_FromStringAndSize(NULL, events * (Py_ssize_t)size);
    if (hashes == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < events; i++) {
        uint64_t found[4];
        int64_t at;
        memcpy(&at, PyBytes_AS_STRING(arguments[1]) + i * (Py_ssize_t)sizeof(at), sizeof(at));
        if (at < start - run || at > behind - run || hash_parts(start, run + at, found + 2) < 0) {
            Py_DECREF(hashes);
            return PyErr_Format(PyExc_ValueError, "no event ends at %lld", (long long)at);
        }
        if (!parts) {
            xxh3_128((const unsigned char *)start, (size_t)(run + at - 1 - start), found);
            found[0] = __builtin_bswap64(found[0]); /* the bytes of the digest */
            found[1] = __builtin_bswap64(found[1]);
        }
        memcpy(PyBytes_AS_STRING(hashes) + (size_t)i * size, found + (parts ? 2 : 0), size);
        start = run + at;
    }
    return hashes;
}

PyObject *
event_hashes(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    return hash_run(arguments, count, 0);
}

PyObject *
fingerprints(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    return hash_run(arguments, count, 1);
}
