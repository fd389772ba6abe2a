//===- Options.cpp - the command line of kimi-compile
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Options.h"
#include "lib/Codegen/CudaTarget.h"
#include "passes/KimiToTile/GpuSchedule.h"
#include "passes/OnnxToKimi/OnnxSupport.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include <deque>

namespace cl = llvm::cl;
using namespace kimi;

namespace {
/// A flag for each limit of the importer: --max-rank=64.
class LimitFlags {
public:
  explicit LimitFlags(cl::OptionCategory &category) {
    for (const ImportLimit &limit : importLimits()) {
      const std::string &name = texts.emplace_back("max-" + std::string(limit.name));
      const std::string &text = texts.emplace_back("At most so many " + std::string(limit.description) + " (" +
                                                   std::to_string(defaults.*limit.value) + ")");
      flags.emplace_back(llvm::StringRef(name), cl::desc(text), cl::value_desc("N"), cl::init(defaults.*limit.value),
                         cl::cat(category));
    }
  }

  /// False after a message where a value is more than the importer can deal with.
  bool read(ImportLimits &limits) const {
    for (auto [limit, flag] : llvm::zip(importLimits(), flags)) {
      if (flag > limit.ceiling) {
        llvm::errs() << "kimi-compile: error: --max-" << limit.name << "=" << flag << " is more than " << limit.ceiling
                     << ", which is as far as it goes\n";
        return false;
      }
      limits.*limit.value = flag;
    }
    return true;
  }

private:
  const ImportLimits defaults;
  std::deque<std::string> texts; // that the flags refer to
  std::deque<cl::opt<uint64_t>> flags;
};
} // namespace

static const char kOverview[] =
    "Compiles a language model in ONNX format.\n\n"
    "exit codes: 0 compiled, 1 the model cannot be compiled or a file cannot be written, 2 wrong usage\n";

std::optional<kimi::CompileOptions> kimi::parseCompileOptions(int argc, char **argv) {
  // Options live here rather than at namespace scope, so that a library that is linked in brings none with it.
  static cl::OptionCategory category("options");
  static cl::opt<std::string> input(cl::Positional, cl::desc("<model.onnx>"), cl::cat(category));
  static cl::opt<std::string> output(
      "o", cl::desc("Output file, - for stdout (default: the model's name with .kmod; stdout for text)"),
      cl::value_desc("file"), cl::cat(category));
  static cl::opt<Emit> emit("emit", cl::desc("What to write:"), cl::init(Emit::Kmod), cl::cat(category),
                            cl::values(clEnumValN(Emit::Onnx, "onnx", "the imported graph, one op per node"),
                                       clEnumValN(Emit::Kimi, "kimi", "the graph with mixers, state and fusion groups"),
                                       clEnumValN(Emit::Tile, "tile", "kernels as block programs, and the launches"),
                                       clEnumValN(Emit::Llvm, "llvm", "LLVM IR of the kernels"),
                                       clEnumValN(Emit::Asm, "asm", "assembly of the kernels (cpu)"),
                                       clEnumValN(Emit::Ptx, "ptx", "PTX of the kernels (cuda)"),
                                       clEnumValN(Emit::SassInfo, "sass-info",
                                                  "registers, spills, shared memory and instructions of each kernel, "
                                                  "as ptxas assembles it (cuda)"),
                                       clEnumValN(Emit::Plan, "plan", "entries, buffers and launches, readable"),
                                       clEnumValN(Emit::Kmod, "kmod", "the compiled module (default)")));
  static cl::opt<std::string> kernel("kernel",
                                     cl::desc("Only this kernel in the output of tile, llvm, asm, ptx and sass-info"),
                                     cl::value_desc("name"), cl::cat(category));
  static cl::opt<std::string> target(
      "target", cl::desc("Device to compile for: cpu, cuda:sm_80, cuda:sm_86, cuda:sm_89, cuda:sm_90, cuda:sm_90a"),
      cl::init("cpu"), cl::cat(category));
  static cl::opt<std::string> cpu("cpu", cl::desc("native, x86-64-v3, x86-64-v4, or a processor name of LLVM"),
                                  cl::init("native"), cl::cat(category));
  static cl::opt<std::string> precision(
      "precision", cl::desc("What weights and activations are held in: f32, tf32, bf16 or fp16 (default: f32)"),
      cl::value_desc("type"), cl::init("f32"), cl::cat(category));
  static cl::opt<std::string> ptxas(
      "ptxas",
      cl::desc("NVIDIA's assembler, for cuda (default: $KIMI_PTXAS, the search path, $CUDA_HOME/bin, $CUDA_PATH/bin, "
               "/usr/local/cuda/bin); none: the module holds PTX only, which the driver compiles when it is loaded"),
      cl::value_desc("file"), cl::cat(category));
  static cl::list<std::string> constants(
      "constant", cl::desc("Take an input of the graph as the constant that the file, a serialised TensorProto, holds"),
      cl::value_desc("input=file.pb"), cl::cat(category));
  static cl::opt<int> deltaChunk(
      "delta-chunk", cl::desc("Tokens of a chunk of the delta rule's chunkwise form: 16, 32 or 64 (0: token by token)"),
      cl::init(0), cl::cat(category));
  static cl::opt<std::string> mla(
      "mla",
      cl::desc("How latent attention is computed: auto (what does less), absorbed, expanded, or none: its states are "
               "expanded keys and values (default: auto)"),
      cl::value_desc("form"), cl::init("auto"), cl::cat(category));
  static cl::opt<bool> reference(
      "reference", cl::desc("Plain fp32 loops, no fusion and no schedules: slow and obvious"), cl::cat(category));
  static cl::opt<bool> noDecode("no-derive-decode", cl::desc("Only the graph's own entry, no prefill and decode"),
                                cl::cat(category));
  static cl::opt<bool> noToken("no-next-token", cl::desc("No greedy token among the outputs of prefill and decode"),
                               cl::cat(category));
  static cl::opt<bool> bake("bake", cl::desc("Put the bytes of external weights into the module"), cl::cat(category));
  static cl::opt<std::string> listOps("list-ops", cl::desc("Print the ONNX operators that are accepted: markdown"),
                                      cl::value_desc("format"), cl::cat(category));
  static cl::opt<bool> checkBounds(
      "check-bounds",
      cl::desc("End the program by a trap where a kernel leaves a buffer (cpu; slow, for finding bugs)"),
      cl::cat(category));
  static cl::opt<std::string> schedules(
      "gpu-schedules", cl::desc("Use the schedules of a GPU of this compute capability (80, 90, 90a) on any target"),
      cl::value_desc("arch"), cl::Hidden, cl::cat(category));
  static cl::opt<bool> verbose("v", cl::desc("Print remarks: what was recognised, what was refused and why"),
                               cl::cat(category));
  static cl::opt<bool> timing("timing", cl::desc("Print to stderr how long each phase and each pass took"),
                              cl::cat(category));
  static cl::opt<bool> locations("locations", cl::desc("Print node and value names as locations of the IR"),
                                 cl::cat(category));

  static cl::OptionCategory limitCategory("options that limit what an .onnx may ask for");
  static LimitFlags limitFlags(limitCategory);

  cl::HideUnrelatedOptions({&category, &limitCategory});
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "kimi-compile " << KIMI_VERSION << "\n"; });
  std::string problems;
  llvm::raw_string_ostream problemStream(problems);
  if (!cl::ParseCommandLineOptions(argc, argv, kOverview, &problemStream)) {
    llvm::errs() << problems;
    return std::nullopt;
  }
  if (listOps == "markdown") {
    onnx::printOnnxSupport(llvm::outs());
    llvm::outs().flush();
    std::exit(kExitOk);
  }
  if (!listOps.empty()) {
    llvm::errs() << "kimi-compile: error: --list-ops=" << listOps << " is not known; the only format is markdown\n";
    return std::nullopt;
  }
  if (input.empty()) {
    llvm::errs() << "kimi-compile: error: no model given; usage: kimi-compile model.onnx -o out (see --help)\n";
    return std::nullopt;
  }
  if (target != "cpu") {
    llvm::Expected<CudaTarget> cuda = resolveCudaTarget(target);
    if (!cuda) {
      llvm::consumeError(cuda.takeError());
      llvm::errs() << "kimi-compile: error: --target=" << target << " is not known; targets are cpu, "
                   << cudaTargetNames() << "\n";
      return std::nullopt;
    }
  }
  bool forCuda = emit == Emit::Ptx || emit == Emit::SassInfo;
  if (forCuda && target == "cpu") {
    llvm::errs() << "kimi-compile: error: --emit=" << (emit == Emit::Ptx ? "ptx" : "sass-info")
                 << " is of CUDA targets; name one with --target (" << cudaTargetNames() << ")\n";
    return std::nullopt;
  }
  if (emit == Emit::Asm && target != "cpu") {
    llvm::errs() << "kimi-compile: error: --emit=asm is of the target cpu; for " << target << " there is --emit=ptx\n";
    return std::nullopt;
  }
  if (precision != "f32" && precision != "tf32" && precision != "bf16" && precision != "fp16") {
    llvm::errs() << "kimi-compile: error: --precision=" << precision
                 << " is not known; precisions: f32, tf32, bf16, fp16\n";
    return std::nullopt;
  }
  if (!schedules.empty() && !GpuArch::get(schedules)) {
    llvm::errs() << "kimi-compile: error: there are no schedules for --gpu-schedules=" << schedules << "\n";
    return std::nullopt;
  }
  CompileOptions options;
  if (!limitFlags.read(options.limits)) {
    return std::nullopt;
  }
  for (llvm::StringRef constant : constants) {
    auto [name, file] = constant.split('=');
    if (name.empty() || file.empty()) {
      llvm::errs() << "kimi-compile: error: --constant=" << constant << " is not of the form input=file.pb\n";
      return std::nullopt;
    }
    options.constants.emplace_back(name, file);
  }
  options.input = input;
  options.output = output;
  options.emit = emit;
  options.locations = locations;
  options.verbose = verbose;
  options.timing = timing;
  options.target = target;
  options.cpu = cpu;
  options.precision = precision;
  options.ptxas = ptxas;
  options.gpuSchedules = schedules;
  options.checkBounds = checkBounds;
  options.deltaChunk = deltaChunk;
  if (deltaChunk != 0 && deltaChunk != 16 && deltaChunk != 32 && deltaChunk != 64) {
    llvm::errs() << "kimi-compile: error: --delta-chunk is " << deltaChunk << "; expected 0, 16, 32 or 64\n";
    return std::nullopt;
  }
  options.mla = mla;
  if (mla != "auto" && mla != "absorbed" && mla != "expanded" && mla != "none") {
    llvm::errs() << "kimi-compile: error: --mla is '" << mla << "'; expected auto, absorbed, expanded or none\n";
    return std::nullopt;
  }
  options.reference = reference;
  options.deriveDecode = !noDecode;
  options.nextToken = !noToken;
  options.bake = bake;
  options.kernel = kernel;
  return options;
}
