# FindOnnxProto: the .proto of the ONNX format, as the `onnx` Python package ships it.
#
#   OnnxProto_FILE     path of onnx-ml.proto
#   OnnxProto_FOUND
#
# kimi_add_onnx_proto(target): a library with the generated classes; include "onnx/onnx-ml.pb.h".
# The Python of scripts/setup.sh holds the package; another one may be named by Python3_EXECUTABLE.
if(NOT Python3_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python3_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python3 QUIET COMPONENTS Interpreter)
if(NOT OnnxProto_FILE AND Python3_Interpreter_FOUND)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
    OUTPUT_VARIABLE onnx_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_file(OnnxProto_FILE onnx-ml.proto PATHS ${onnx_dir} NO_DEFAULT_PATH
            DOC "onnx-ml.proto of the onnx Python package")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OnnxProto REQUIRED_VARS OnnxProto_FILE
  REASON_FAILURE_MESSAGE "install the onnx Python package (pip install onnx) or set OnnxProto_FILE")
mark_as_advanced(OnnxProto_FILE)

# The file is copied to the build folder first: protoc then sees it as onnx/onnx-ml.proto wherever it was found. It asks
# for the lite runtime, which needs neither reflection nor RTTI, so compiler libraries without RTTI may use it too.
function(kimi_add_onnx_proto target)
  set(dir ${PROJECT_BINARY_DIR}/onnx)
  configure_file(${OnnxProto_FILE} ${dir}/onnx-ml.proto COPYONLY)
  add_custom_command(
    OUTPUT ${dir}/onnx-ml.pb.cc ${dir}/onnx-ml.pb.h
    COMMAND protobuf::protoc --cpp_out=${PROJECT_BINARY_DIR} -I ${PROJECT_BINARY_DIR} ${dir}/onnx-ml.proto
    DEPENDS ${dir}/onnx-ml.proto
    COMMENT "Generating onnx-ml.pb.h")
  # Users wait for the headers through the custom target, without waiting for the library.
  add_custom_target(${target}Headers DEPENDS ${dir}/onnx-ml.pb.h)
  add_library(${target} STATIC ${dir}/onnx-ml.pb.cc)
  target_compile_options(${target} PRIVATE -w)
  target_include_directories(${target} SYSTEM PUBLIC ${PROJECT_BINARY_DIR})
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf-lite)
  add_dependencies(${target} ${target}Headers)
endfunction()
