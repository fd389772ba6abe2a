//===- PtxasTest.cpp - reading ptxas, joining modules of PTX
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/Ptxas.h"
#include "lib/Codegen/MergePtx.h"
#include "lib/Codegen/SassInfo.h"
#include <gtest/gtest.h>

using namespace kimi;

namespace {
TEST(Ptxas, ReadsUsage) {
  PtxasResult result;
  parsePtxasLog("ptxas info    : 0 bytes gmem\n"
                "ptxas info    : Compiling entry function 'scale' for 'sm_80'\n"
                "ptxas info    : Function properties for scale\n"
                "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
                "ptxas info    : Used 40 registers, used 2 barriers, 16 bytes cumulative stack size, 1024 bytes smem, "
                "424 bytes cmem[0]\n"
                "ptxas info    : Compiling entry function 'copy' for 'sm_80'\n"
                "ptxas info    : Function properties for copy\n"
                "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                "ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]\n",
                result);
  ASSERT_EQ(result.usage.size(), 2u);
  EXPECT_EQ(result.usage[0].kernel, "scale");
  EXPECT_EQ(result.usage[0].stack, 16);
  EXPECT_EQ(result.usage[0].spillStores, 12);
  EXPECT_EQ(result.usage[0].spillLoads, 8);
  EXPECT_EQ(result.usage[0].registers, 40);
  EXPECT_EQ(result.usage[0].barriers, 2);
  EXPECT_EQ(result.usage[0].shared, 1024);
  EXPECT_EQ(result.usage[0].constant, 424);
  EXPECT_EQ(result.usage[1].kernel, "copy");
  EXPECT_EQ(result.usage[1].registers, 8);
  EXPECT_TRUE(result.remarks.empty());
}

TEST(Ptxas, ReadsComplaints) {
  PtxasResult result;
  parsePtxasLog(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "insufficient register resources for the wgmma pipeline in the function 'gemm'\n"
      "ptxas kernels.ptx, line 7; warning : Instruction 'x' is deprecated\n",
      result);
  ASSERT_EQ(result.remarks.size(), 2u);
  EXPECT_EQ(result.remarks[0].kernel, "gemm");
  EXPECT_EQ(result.remarks[0].text.rfind("Potential Performance Loss", 0), 0u);
  EXPECT_EQ(result.remarks[1].kernel, "");
  EXPECT_EQ(result.remarks[1].text, "Instruction 'x' is deprecated");
}

const std::string kHeader = "//\n// Generated\n//\n\n.version 8.0\n.target sm_90a\n.address_size 64\n";

TEST(MergePtx, KeepsOneHeaderAndOneDeclarationOfSharedMemory) {
  std::string shared = ".extern .shared .align 1024 .b8 tiles[];\n";
  llvm::Expected<std::string> merged =
      mergePtx({kHeader + shared + ".visible .entry a()\n{\n\tret;\n}\n", kHeader + shared + ".visible .entry b()\n"});
  ASSERT_TRUE(bool(merged));
  EXPECT_EQ(*merged, ".version 8.0\n.target sm_90a\n.address_size 64\n" + shared +
                         ".visible .entry a()\n{\n\tret;\n}\n.visible .entry b()\n");
}

TEST(MergePtx, RefusesOtherTargetsAndNoHeader) {
  std::string other = kHeader;
  other.replace(other.find("90a"), 3, "80");
  EXPECT_TRUE(llvm::errorToBool(mergePtx({kHeader, other}).takeError()));
  EXPECT_TRUE(llvm::errorToBool(mergePtx({"ret;\n"}).takeError()));
}

TEST(CountPtx, ByKernel) {
  std::string ptx = kHeader + ".visible .entry a(\n)\n{\n\tld.global.nc.b32 %r1, [%rd1];\n"
                              "\t@%p1 st.global.b32 [%rd1], %r1;\n}\n"
                              ".visible .entry b(\n)\n{\n\tcp.async.bulk.tensor.2d [%r1];\n"
                              "\tcp.async.bulk.commit_group;\n\tcp.async.cg.shared [%r1];\n}\n";
  InstructionCounts counts = countPtx(ptx); // its names are views of the text
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts["a"].size(), 2u);
  EXPECT_EQ(counts["a"]["ld_global_nc"], 1);
  EXPECT_EQ(counts["a"]["st_global"], 1);
  EXPECT_EQ(counts["b"].size(), 2u);
  EXPECT_EQ(counts["b"]["tma"], 1);
  EXPECT_EQ(counts["b"]["cp_async"], 1);
}

TEST(CountSass, ByKernel) {
  InstructionCounts counts = countSass("\t.section\t.text.a,\"ax\",@progbits\na:\n.text.a:\n"
                                       "        /*0000*/                   LDC R1, c[0x0][0x28] ;\n"
                                       "        /*0010*/              @!P0 LDG.E.CONSTANT R0, desc[UR4][R2.64] ;\n"
                                       ".L_x_1:\n"
                                       "        /*0020*/               @P1 LDG.E R0, desc[UR4][R2.64] ;\n"
                                       "        /*0030*/                   NOP;\n"
                                       ".text.b:\n"
                                       "        /*0000*/                   EXIT ;\n");
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts["a"]["total"], 3);
  EXPECT_EQ(counts["a"]["LDG"], 2);
  EXPECT_EQ(counts["a"].count("NOP"), 0u);
  EXPECT_EQ(counts["b"]["EXIT"], 1);
}
} // namespace
