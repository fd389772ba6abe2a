// Empty: what is compiled here is the headers of KimiMlirHeaders.cmake.
