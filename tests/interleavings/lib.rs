//! Threads that share memory, under many interleavings: the tests are beside this file.
