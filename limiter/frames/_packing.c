/* The same as limiter/frames/packing.py, which says what it means, compiled: what a client does to many entries of a frame
 * at once. Chosen when it could be built; see packing.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#if !defined(__linux__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "limiter/frames/packing.py is used here: frames are little-endian"
#endif

#define ENTRY_BYTES 24 /* limiter.frames.frames.ENTRY */
#define ROW_BYTES 32   /* limiter.frames.frames.ROW */
#define IDENTITY_BYTES 16
#define ALLOWED 1 /* limiter.frames.frames */

/* -- entries -- */

/* The number of a place; one that is new gets the next, and is added to ``new``. -1 with an exception. */
static long long
number_of(PyObject *numbers, PyObject *check, PyObject *new)
{
    PyObject *network = PyTuple_GET_ITEM(check, 5);
    PyObject **parts = &PyTuple_GET_ITEM(check, 0);
    PyObject *place = network == Py_None ? PyTuple_Pack(3, parts[0], parts[1], parts[2])
                                         : PyTuple_Pack(4, parts[0], parts[1], parts[2], network);
    if (place == NULL)
        return -1;
    PyObject *known = PyDict_GetItemWithError(numbers, place);
    long long number = -1;
    if (known != NULL)
        number = PyLong_AsLongLong(known);
    else if (!PyErr_Occurred()) {
        PyObject *next = PyLong_FromSsize_t(PyDict_GET_SIZE(numbers));
        if (next != NULL && PyDict_SetItem(numbers, place, next) == 0 && PyList_Append(new, place) == 0)
            number = PyLong_AsLongLong(next);
        Py_XDECREF(next);
    }
    Py_DECREF(place);
    return number;
}

/* 0, or -1 with an exception. ``made``: the identity of an entry that has none. */
static int
put_entry(PyObject *numbers, PyObject *check, const char *made, PyObject *new, char *to)
{
    if (!PyTuple_Check(check) || PyTuple_GET_SIZE(check) != 6) {
        PyErr_SetString(PyExc_TypeError, "a check has six fields");
        return -1;
    }
    long long number = number_of(numbers, check, new);
    if (number == -1 && PyErr_Occurred())
        return -1;
    int overflow = 0;
    long long cost = PyLong_AsLongLongAndOverflow(PyTuple_GET_ITEM(check, 3), &overflow);
    if (cost == -1 && PyErr_Occurred())
        return -1;
    PyObject *identity = PyTuple_GET_ITEM(check, 4);
    int is_given = identity != Py_None;
    if (number < 0 || number > UINT32_MAX || overflow || cost < 0 || cost > UINT32_MAX ||
        (is_given && (!PyBytes_Check(identity) || PyBytes_GET_SIZE(identity) != IDENTITY_BYTES))) {
        PyErr_SetString(PyExc_ValueError, "out of range");
        return -1;
    }
    uint32_t fields[2] = {(uint32_t)number, (uint32_t)cost};
    memcpy(to, fields, 8);
    memcpy(to + 8, is_given ? PyBytes_AS_STRING(identity) : made, IDENTITY_BYTES);
    return 0;
}

static PyObject *
entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *numbers, *checks, *new;
    Py_buffer made;
    if (!PyArg_ParseTuple(args, "O!Oy*O!", &PyDict_Type, &numbers, &checks, &made, &PyList_Type, &new))
        return NULL;
    PyObject *body = NULL, *all = PySequence_Fast(checks, "checks are a sequence");
    Py_ssize_t count = all == NULL ? 0 : PySequence_Fast_GET_SIZE(all);
    if (all != NULL && made.len / IDENTITY_BYTES < count)
        PyErr_SetString(PyExc_ValueError, "there is one identity for each entry");
    else if (all != NULL)
        body = PyBytes_FromStringAndSize(NULL, count * ENTRY_BYTES);
    for (Py_ssize_t at = 0; body != NULL && at < count; at++) {
        PyObject *check = at < PySequence_Fast_GET_SIZE(all) ? PySequence_Fast_GET_ITEM(all, at) : Py_None;
        Py_INCREF(check); /* the hash of a part may run Python */
        int done = put_entry(numbers, check, (char *)made.buf + at * IDENTITY_BYTES, new,
                             PyBytes_AS_STRING(body) + at * ENTRY_BYTES);
        Py_DECREF(check);
        if (done < 0)
            Py_CLEAR(body);
    }
    Py_XDECREF(all);
    PyBuffer_Release(&made);
    return body;
}

/* -- answers -- */

static PyObject *
answer_of(PyTypeObject *type, const char *row)
{
    uint32_t flags, version;
    int64_t rest[3]; /* remaining, reset_ms, retry_after_ms */
    memcpy(&flags, row, 4);
    memcpy(&version, row + 4, 4);
    memcpy(rest, row + 8, 24);
    PyObject *answer = type->tp_alloc(type, 6);
    if (answer == NULL)
        return NULL;
    PyTuple_SET_ITEM(answer, 0, PyBool_FromLong(flags & ALLOWED));
    for (int at = 0; at < 3; at++)
        PyTuple_SET_ITEM(answer, at + 1, PyLong_FromLongLong(rest[at]));
    PyTuple_SET_ITEM(answer, 4, PyLong_FromUnsignedLong(version));
    PyTuple_SET_ITEM(answer, 5, PyLong_FromUnsignedLong(flags));
    for (int at = 1; at < 6; at++) {
        if (PyTuple_GET_ITEM(answer, at) == NULL) {
            Py_DECREF(answer);
            return PyErr_NoMemory();
        }
    }
    return answer;
}

static PyObject *
answers(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *type;
    Py_buffer rows;
    if (!PyArg_ParseTuple(args, "O!y*", &PyType_Type, &type, &rows))
        return NULL;
    PyObject *found = NULL;
    if (!PyType_IsSubtype(type, &PyTuple_Type))
        PyErr_SetString(PyExc_TypeError, "an answer is a tuple");
    else
        found = PyList_New(rows.len / ROW_BYTES);
    for (Py_ssize_t at = 0; found != NULL && at < rows.len / ROW_BYTES; at++) {
        PyObject *answer = answer_of(type, (char *)rows.buf + at * ROW_BYTES);
        if (answer == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, at, answer);
    }
    PyBuffer_Release(&rows);
    return found;
}

/* -- module -- */

static PyMethodDef functions[] = {{"entries", entries, METH_VARARGS, NULL},
                                  {"answers", answers, METH_VARARGS, NULL},
                                  {NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "limiter.frames._packing", NULL, -1, functions};

PyMODINIT_FUNC
PyInit__packing(void)
{
    return PyModule_Create(&module);
}
