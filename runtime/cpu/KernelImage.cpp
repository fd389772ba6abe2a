//===- KernelImage.cpp - native code of a module, loaded --------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/KernelImage.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace kimi {
namespace {

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

int openMemoryFile() {
  // Newer kernels want to be told that the file holds code; older ones refuse the flag.
  int descriptor = memfd_create("kimi-kernels", MFD_CLOEXEC | MFD_EXEC);
  return descriptor >= 0 ? descriptor : memfd_create("kimi-kernels", MFD_CLOEXEC);
}

bool writeAll(int descriptor, const char *bytes, size_t size) {
  while (size != 0) {
    ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

bool isSharedObject(const void *bytes, size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof(header)) {
    return false;
  }
  std::memcpy(&header, bytes, sizeof(header));
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_type == ET_DYN;
}

} // namespace

Status KernelImage::load(const void *bytes, size_t size, std::unique_ptr<KernelImage> &out) {
  if (!isSharedObject(bytes, size)) {
    return badFile("is no 64-bit ELF shared object");
  }
  // Kernels call expf and the like without naming a library; nothing else might have loaded it.
  static void *mathematics = dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  (void)mathematics;
  std::unique_ptr<KernelImage> image(new KernelImage());
  image->descriptor = openMemoryFile();
  if (image->descriptor < 0 || !writeAll(image->descriptor, static_cast<const char *>(bytes), size)) {
    return {KIMI_RUNTIME_ERROR, std::string("no memory file for the code: ") + std::strerror(errno)};
  }
  std::string path = "/proc/self/fd/" + std::to_string(image->descriptor);
  image->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image->handle) {
    const char *reason = dlerror();
    return badFile(std::string("cannot be loaded: ") + (reason ? reason : "unknown reason"));
  }
  out = std::move(image);
  return {};
}

KernelImage::~KernelImage() {
  if (handle) {
    dlclose(handle);
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
}

KernelFunction KernelImage::find(const char *symbol) const {
  return reinterpret_cast<KernelFunction>(dlsym(handle, symbol));
}

} // namespace kimi
