// The name of the way in which a file's functions fail, and the visibility of the exceptions.
#ifndef SHMARRAY_MODE_HPP
#define SHMARRAY_MODE_HPP

// Files that are compiled with exceptions and files that are not may be linked into one program.
// Their functions have different names, since the linker keeps one of several inline functions of
// one name: a file that catches exceptions would otherwise abort.
#ifdef __cpp_exceptions
#define SHMARRAY_MODE throwing
#else
#define SHMARRAY_MODE aborting
#endif

// An exception that a shared library throws is caught by its type in another one only if both have
// the same type information, also where -fvisibility=hidden hides all else.
#ifdef __GNUC__
#define SHMARRAY_EXCEPTION __attribute__((visibility("default")))
#else
#define SHMARRAY_EXCEPTION
#endif

#endif // SHMARRAY_MODE_HPP
