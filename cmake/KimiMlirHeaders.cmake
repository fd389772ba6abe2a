# The headers of MLIR that most of the compiler includes, compiled once: three quarters of the time of a file of ours went
# into them. Only headers of the distribution belong here; a file still includes all it uses (to check that:
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON).
set(KIMI_MLIR_HEADERS
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/LLVMIR/NVVMDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/Matchers.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Pass/PassManager.h>
  <mlir/Transforms/GreedyPatternRewriteDriver.h>
  <llvm/ADT/TypeSwitch.h>)

add_library(KimiMlirHeaders OBJECT ${CMAKE_CURRENT_LIST_DIR}/KimiMlirHeaders.cpp)
target_include_directories(KimiMlirHeaders SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_options(KimiMlirHeaders PRIVATE -fno-rtti)
target_link_libraries(KimiMlirHeaders PRIVATE kimi_options)
target_precompile_headers(KimiMlirHeaders PRIVATE ${KIMI_MLIR_HEADERS})
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # A compiled header holds paths of its build folder, so it is not cached. What ccache tells it apart by, for the files that
  # are compiled with it, is this summary, which is the same in every clone.
  target_compile_options(KimiMlirHeaders PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  set_target_properties(KimiMlirHeaders PROPERTIES CXX_COMPILER_LAUNCHER "")
  file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/KimiMlirHeaders.dir/cmake_pch.hxx.pch.sum
       "${LLVM_PACKAGE_VERSION} ${CMAKE_CXX_COMPILER_VERSION} ${KIMI_MLIR_HEADERS}\n")
endif()
