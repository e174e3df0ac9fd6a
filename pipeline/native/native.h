/* What the files of this folder share: names known once, and the members of one JSON object. */

#ifndef BACKCAST_NATIVE_H
#define BACKCAST_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* --- names (names.c) ----------------------------------------------------------------------------------- */

/* A member's name. There is one for each different name, and it stays for the life of the process, so names are
 * equal when their pointers are. */
typedef struct {
    PyObject *text;    /* str, interned */
    PyObject *written; /* bytes: a comma, the name as JSON, a colon */
    Py_ssize_t number; /* counted from 0, for Answers */
    uint64_t seen[2];  /* the last object that had it, at each level that is opened: tells duplicates */
} Name;

/* A name as it stood in a row: the bytes between its quotes. */
typedef struct {
    uint32_t hash;
    uint32_t length;
    char *bytes;
    Name *name;
} Spelling;

int names_init(PyObject *encode, PyObject *decode_text); /* once, as the others below */
/* The name of a str; NULL with an exception for anything else, and when memory lacks. */
Name *name_of(PyObject *text);
/* The same where it is known already; NULL without an exception where it is not. */
Name *names_known(PyObject *text);
/* A new reference to a set of names, so that to look into it runs no Python; NULL with an exception for anything but a
 * frozenset of str. */
PyObject *names_only(PyObject *set);
/* How some bytes of a row are known; NULL without an exception for a name that cannot be known, with one else. */
Spelling *spelling_of(const char *bytes, Py_ssize_t length);

/* What a table says of each name, asked once for each: 0 is not known yet. */
typedef struct {
    uint32_t *known;
    Py_ssize_t room;
} Answers;

/* Where the answer of a name stands until another is asked for; NULL with an exception when memory lacks. */
uint32_t *answer_of(Answers *answers, const Name *name);

/* --- members (members.c) ------------------------------------------------------------------------------- */

/* One member: JSON text that lies in the row, or a value that Python put there, or both (the text is inside the
 * value). A member that was taken out has no name. */
typedef struct {
    Name *name;
    PyObject *value;
    const char *at;
    Py_ssize_t length;
} Member;

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* bytes in which the members' text lies, or NULL */
    Member *members;
    Py_ssize_t used;
    Py_ssize_t live;
    Py_ssize_t room;
} Members;

extern PyTypeObject Members_Type;
#define Members_Check(object) (Py_TYPE(object) == &Members_Type)

int members_init(PyObject *raw_type, PyObject *encode, PyObject *decode_text);
Members *members_new(PyObject *owner);
/* Room for one more at the end, not filled; NULL with an exception. */
Member *members_add(Members *self);
/* Add what another object of the same row has under one of its names: its text lies where that of this one does. -1 with
 * an exception. */
int members_share(Members *self, const Members *row, const Member *held, Name *name);
Member *members_find(Members *self, PyObject *name);
Member *members_find_name(Members *self, const Name *name);
/* A new reference to a member's value as Python sees it. */
PyObject *member_value(const Member *member);
/* Whether it is JSON null. */
static inline int
member_is_null(const Member *member)
{
    return member->at != NULL && member->length > 0 && *member->at == 'n';
}
/* Let the member at a place hold its value as JSON text, as msgspec writes it. */
int members_encode(Members *self, Py_ssize_t place);
/* Put a value under a name, in place of the one that is there or at the end. */
int members_set(Members *self, PyObject *name, PyObject *value);

/* --- the rest ------------------------------------------------------------------------------------------ */

/* The SHA-1 of two texts in a row; the first is shorter than 64 bytes. (sha1.c) */
void sha1_of(const unsigned char *prefix, size_t prefix_length, const unsigned char *text, size_t length,
             unsigned char digest[20]);

PyObject *fill(PyObject *, PyObject *const *, Py_ssize_t);   /* filling.c */
PyObject *uuids5(PyObject *, PyObject *const *, Py_ssize_t); /* filling.c */

extern PyTypeObject Lines_Type;    /* lines.c */
extern PyTypeObject Renames_Type;  /* renames.c */
extern PyTypeObject Columns_Type;  /* renames.c */
extern PyTypeObject Writer_Type;   /* writer.c */
extern PyTypeObject IdAccumulator_Type, PairAccumulator_Type, PropertyAccumulator_Type; /* accumulators.c */
extern PyTypeObject Observer_Type;                         /* observer.c */
extern PyTypeObject Tally_Type;                            /* tally.c */
int accumulators_init(void);
int observer_init(void);

#endif
