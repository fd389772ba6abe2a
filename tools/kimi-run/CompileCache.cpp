//===- CompileCache.cpp - compiles an .onnx once, and keeps the module
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/CompileCache.h"
#include "runtime/format/Header.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <set>
#include <spawn.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace kimi::run {

namespace fs = std::filesystem;

Status findCompiler(std::string &path) {
  std::error_code code;
  fs::path self = fs::read_symlink("/proc/self/exe", code);
  if (code) {
    return {KIMI_RUNTIME_ERROR, "cannot tell where this executable is: " + code.message()};
  }
  fs::path beside = self.parent_path() / "kimi-compile";
  fs::path sibling = self.parent_path().parent_path() / "kimi-compile" / "kimi-compile";
  for (const fs::path &candidate : {beside, sibling}) {
    if (fs::is_regular_file(candidate, code) && access(candidate.c_str(), X_OK) == 0) {
      path = candidate.string();
      return {};
    }
  }
  return {KIMI_NOT_FOUND, "an .onnx file needs kimi-compile, which is neither " + beside.string() + " nor " +
                              sibling.string() + "; compile it elsewhere and run the .kmod"};
}

Status cacheFolder(const std::string &given, std::string &folder) {
  const char *xdg = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (!given.empty()) {
    folder = given;
  } else if (xdg && *xdg == '/') {
    folder = std::string(xdg) + "/kimi";
  } else if (home && *home) {
    folder = std::string(home) + "/.cache/kimi";
  } else {
    return invalidArgument("there is no home for compiled modules: set --cache or $XDG_CACHE_HOME");
  }
  std::error_code code;
  fs::create_directories(folder, code);
  if (std::error_code none; !fs::is_directory(folder, none)) {
    return {KIMI_RUNTIME_ERROR, "cannot make the folder for compiled modules, " + folder + ": " + code.message() +
                                    "; name another with --cache"};
  }
  return {};
}

/// Names of the files that the external data of a serialised ModelProto lie in. Looks for the entries' bytes (key
/// "location", then the value) instead of parsing, which for a model with its weights inside would cost their size
/// again.
static std::set<std::string> externalFiles(std::string_view model) {
  static constexpr std::string_view mark("\x0A\x08location\x12", 11);
  std::set<std::string> names;
  for (size_t at = model.find(mark); at != std::string_view::npos; at = model.find(mark, at + 1)) {
    size_t length = 0, value = at + mark.size();
    for (int shift = 0; value < model.size() && shift <= 14; shift += 7) { // A varint of up to three bytes.
      auto byte = static_cast<unsigned char>(model[value++]);
      length |= size_t(byte & 0x7F) << shift;
      if (byte < 0x80) {
        break;
      }
    }
    if (length <= 4096 && length <= model.size() - value) {
      names.emplace(model.substr(value, length));
    }
  }
  return names;
}

/// Hashes the whole file, mapped.
static Status hashFile(const std::string &path, uint64_t &hash, uint64_t &size, std::set<std::string> &external) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info{};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    std::string why = file < 0 ? std::strerror(errno) : "not a regular file";
    if (file >= 0) {
      ::close(file);
    }
    return {KIMI_BAD_FILE, path + ": " + why};
  }
  size = static_cast<uint64_t>(info.st_size);
  void *bytes = size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  ::close(file);
  if (bytes == MAP_FAILED) {
    return {KIMI_RUNTIME_ERROR, path + ": cannot be mapped: " + std::strerror(errno)};
  }
  hash = format::checksum(bytes ? bytes : "", size);
  if (bytes) {
    external = externalFiles({static_cast<const char *>(bytes), size});
    munmap(bytes, size);
  }
  return {};
}

/// "name size time" of a file.
static std::string identity(const fs::path &path) {
  std::error_code code;
  uint64_t size = fs::file_size(path, code);
  auto time = fs::last_write_time(path, code).time_since_epoch().count();
  return path.filename().string() + " " + std::to_string(size) + " " + std::to_string(time) + "\n";
}

/// What `native` means here: the model name and the features of the first processor.
static std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, out;
  while (std::getline(file, line) && !line.empty()) {
    if (line.compare(0, 10, "model name") == 0 || line.compare(0, 5, "flags") == 0) {
      out += line + "\n";
    }
  }
  return out;
}

Status cacheKey(const std::string &model, const std::string &compiler, const CompileOptions &options,
                std::string &key) {
  uint64_t hash = 0, size = 0;
  std::set<std::string> external;
  if (Status s = hashFile(model, hash, size, external)) {
    return s;
  }
  std::string rest = std::string("kimi ") + kimi_version() + "\n" + identity(compiler) + options.cpu + "\n" +
                     (options.reference ? "reference\n" : "") + options.target + "\n" + options.precision + "\n";
  rest += options.cpu == "native" ? processor() : "";
  for (const auto &[input, file] : options.constants) {
    std::set<std::string> none;
    uint64_t bytes = 0, contents = 0;
    if (Status s = hashFile(file, contents, bytes, none)) {
      return s;
    }
    rest += input + "=" + std::to_string(contents) + "\n";
  }
  // The compiler may read small constants from these.
  for (const std::string &file : external) {
    rest += identity(fs::path(model).parent_path() / file);
  }
  char name[64];
  std::snprintf(name, sizeof(name), "%016llx%016llx-%llu", static_cast<unsigned long long>(hash),
                static_cast<unsigned long long>(format::checksum(rest.data(), rest.size())),
                static_cast<unsigned long long>(size));
  key = name;
  return {};
}

/// Runs a program and waits; its stdout goes to our stderr, because stdout is for data. With `quiet` both go into the
/// message of an error.
static Status spawn(const std::vector<std::string> &words, bool quiet) {
  std::vector<char *> argv;
  for (const std::string &word : words) {
    argv.push_back(const_cast<char *>(word.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  int said = quiet ? memfd_create("kimi-compile", MFD_CLOEXEC) : -1;
  if (said >= 0) {
    posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    return {KIMI_RUNTIME_ERROR, words[0] + " cannot be started: " + std::strerror(failed)};
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return {KIMI_RUNTIME_ERROR, words[0] + ": lost track of it: " + std::strerror(errno)};
    }
  }
  std::string messages;
  if (said >= 0) {
    char buffer[4096];
    for (ssize_t n; (n = pread(said, buffer, sizeof(buffer), static_cast<off_t>(messages.size()))) > 0;) {
      messages.append(buffer, static_cast<size_t>(n));
    }
    ::close(said);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  std::string ended = WIFSIGNALED(status) ? "kimi-compile was ended by signal " + std::to_string(WTERMSIG(status))
                                          : "kimi-compile failed with status " + std::to_string(WEXITSTATUS(status));
  return {KIMI_RUNTIME_ERROR, ended + (quiet ? ":\n" + messages : WIFSIGNALED(status) ? "" : "; its message is above")};
}

Status compileCached(const std::string &model, const std::string &cache, const CompileOptions &options,
                     std::ostream &log, std::string &module) {
  std::string compiler, folder, key;
  if (Status s = findCompiler(compiler)) {
    return s;
  }
  if (Status s = cacheFolder(cache, folder)) {
    return s;
  }
  if (Status s = cacheKey(model, compiler, options, key)) {
    return s;
  }
  std::error_code code;
  fs::path target = fs::path(folder) / (key + ".kmod");
  module = target.string();
  if (fs::is_regular_file(target, code)) {
    return {};
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return {KIMI_RUNTIME_ERROR, "the folder for compiled modules, " + folder +
                                    ", cannot be written: " + std::strerror(errno) + "; name another with --cache"};
  }
  if (!options.quiet) {
    log << "kimi-run: compiling " << model << std::endl;
  }
  std::string temporary = (fs::path(folder) / (key + "." + std::to_string(getpid()) + ".tmp.kmod")).string();
  // A model whose name begins with a dash is a path all the same.
  std::string source = !model.empty() && model[0] == '-' ? "./" + model : model;
  std::vector<std::string> words = {compiler, source, "-o", temporary, "--target=" + options.target};
  if (options.target == "cpu") {
    words.push_back("--cpu=" + options.cpu);
  }
  words.push_back("--precision=" + options.precision);
  if (options.reference) {
    words.push_back("--reference");
  }
  for (const auto &[input, file] : options.constants) {
    words.push_back("--constant=" + input + "=" + file);
  }
  if (Status s = spawn(words, options.quiet)) {
    fs::remove(temporary, code);
    return {s.code(), model + ": " + s.message()};
  }
  fs::rename(temporary, target, code);
  if (code) {
    std::string why = code.message();
    fs::remove(temporary, code);
    return {KIMI_RUNTIME_ERROR, "cannot put the compiled module at " + module + ": " + why};
  }
  return {};
}

} // namespace kimi::run
