# kimi_mlir_library(name SOURCES... [DEPS tablegen-targets] [LINK libs]): a compiler library on MLIR.
# MLIR is linked once, through the tools: shared (libMLIR) by default, static archives with KIMI_STATIC.
if(KIMI_STATIC)
  get_property(KIMI_MLIR_DIALECT_LIBS GLOBAL PROPERTY MLIR_DIALECT_LIBS)
  get_property(KIMI_MLIR_CONVERSION_LIBS GLOBAL PROPERTY MLIR_CONVERSION_LIBS)
  get_property(KIMI_MLIR_EXTENSION_LIBS GLOBAL PROPERTY MLIR_EXTENSION_LIBS)
  set(KIMI_MLIR_LIBS ${KIMI_MLIR_DIALECT_LIBS} ${KIMI_MLIR_CONVERSION_LIBS} ${KIMI_MLIR_EXTENSION_LIBS}
      MLIROptLib MLIRParser MLIRPass MLIRTransforms MLIRTargetLLVMIRExport MLIRBuiltinToLLVMIRTranslation
      MLIRLLVMToLLVMIRTranslation)
else()
  set(KIMI_MLIR_LIBS MLIR LLVM)
endif()

function(kimi_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_options(${name} PRIVATE -fno-rtti)
  target_link_libraries(${name} PUBLIC kimi_options ${ARG_LINK} ${KIMI_MLIR_LIBS})
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
