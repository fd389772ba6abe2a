# kimi_mlir_library(name SOURCES... [DEPS tablegen-targets] [LINK libs]): a compiler library on MLIR.
# MLIR is linked once, through the tools: shared (libMLIR) by default, static archives with KIMI_STATIC.
# The imported MLIR and LLVM targets of a distribution bring the shared library along, so the static build names the
# archives themselves; only the members that are needed are linked.
if(KIMI_STATIC)
  file(GLOB KIMI_MLIR_LIBS ${LLVM_LIBRARY_DIRS}/libMLIR*.a ${LLVM_LIBRARY_DIRS}/libLLVM*.a)
  list(FILTER KIMI_MLIR_LIBS EXCLUDE REGEX "Test|MLIRCAPI|Polly|BOLT")
  execute_process(COMMAND ${LLVM_TOOLS_BINARY_DIR}/llvm-config --link-static --system-libs
                  OUTPUT_VARIABLE system_libs OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(system_libs)
  list(APPEND KIMI_MLIR_LIBS ${system_libs})
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,--gc-sections -Wl,-s)
else()
  set(KIMI_MLIR_LIBS MLIR LLVM)
endif()

function(kimi_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_options(${name} PRIVATE -fno-rtti)
  target_link_libraries(${name} PUBLIC kimi_options ${ARG_LINK} ${KIMI_MLIR_LIBS})
  target_precompile_headers(${name} REUSE_FROM KimiMlirHeaders)
  if(ARG_DEPS)
    add_dependencies(${name} ${ARG_DEPS})
  endif()
endfunction()

# kimi_runtime_library(name SOURCES... [LINK libs]): a library without LLVM.
function(kimi_runtime_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC kimi_options ${ARG_LINK})
  if(ARG_DEPS)
    add_dependencies(${name} ${ARG_DEPS})
  endif()
endfunction()

# kimi_tablegen(target file.td KIND out ...): pairs of mlir-tblgen action and output file.
function(kimi_tablegen target td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(pairs ${ARGN})
  while(pairs)
    list(POP_FRONT pairs out flags)
    separate_arguments(flags)
    mlir_tablegen(${out} ${flags} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  endwhile()
  add_public_tablegen_target(${target})
endfunction()
