# Every library the project stands on, in one place. Versions are those of Debian 12 (LLVM from its security suite).
set(ZLIB_USE_STATIC_LIBS ${KIMI_STATIC})      # before LLVM, which looks for zlib too
find_package(MLIR 22.1 REQUIRED CONFIG)
find_package(LLVM 22.1 REQUIRED CONFIG)
find_package(LLD 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(Protobuf_USE_STATIC_LIBS ${KIMI_STATIC})
find_package(Protobuf 3.21 REQUIRED)        # reads .onnx
find_package(OnnxProto REQUIRED)           # onnx-ml.proto of the onnx Python package
find_package(nlohmann_json 3.11 REQUIRED)   # tokenizer.json, JSON output
find_package(CLI11 2.1 REQUIRED)            # command line of kimi-run (which has no LLVM)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)                 # reads compressed .npz
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.40)  # tokenizer regex
if(KIMI_STATIC)
  find_library(PCRE2_ARCHIVE libpcre2-8.a REQUIRED)
  set_target_properties(PkgConfig::PCRE2 PROPERTIES INTERFACE_LINK_LIBRARIES ${PCRE2_ARCHIVE})
endif()
find_program(FLATC flatc REQUIRED)          # flatbuffers-compiler 2.0: the .kmod format
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
