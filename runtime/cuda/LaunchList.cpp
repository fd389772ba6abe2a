//===- LaunchList.cpp - the launches of a frame as the driver takes them ----===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/LaunchList.h"
#include "runtime/Text.h"
#include "runtime/cuda/TensorMaps.h"

#include <algorithm>

namespace kimi::cuda {
namespace {

constexpr int64_t maxGridX = 2147483647, maxGridYZ = 65535;

size_t mapCount(const fb::Kernel &kernel) { return kernel.tensor_maps() ? kernel.tensor_maps()->size() : 0; }

} // namespace

LaunchList::LaunchList(const CudaProgram &program, Frame &frame) : program(program), frame(frame) {
  list.resize(frame.launchCount());
  for (size_t i = 0; i < list.size(); ++i) {
    Item &item = list[i];
    Frame::Launch launch = frame.launch(i);
    item.launch = i;
    item.words = launch.words;
    item.wordCount = launch.wordCount;
    size_t maps = 0;
    for (const fb::Variant *variant : *frame.layout().entry.launches()->Get(i)->variants()) {
      maps = std::max(maps, mapCount(*program.kernel(variant->kernel()).record));
    }
    item.maps.resize(maps);
    item.mapKeys.resize(maps);
  }
  for (Item &item : list) { // when nothing moves any more
    for (uint32_t word = 0; word < item.wordCount; ++word) {
      item.parameters.push_back(item.words + word);
    }
    item.parameters.push_back(&item.gridExtent);
    for (TensorMap &map : item.maps) {
      item.parameters.push_back(&map);
    }
  }
}

std::string LaunchList::place(const Item &item) const {
  std::string text = frame.place() + ": " + frame.launchPlace(item.launch);
  return item.kernel ? text + ": " + item.kernel->place() : text;
}

Status LaunchList::update() {
  for (Item &item : list) {
    Frame::Launch launch = frame.launch(item.launch);
    item.kernel = launch.kernel < 0 ? nullptr : &program.kernel(launch.kernel);
    if (!item.kernel) {
      continue;
    }
    const fb::Kernel &record = *item.kernel->record;
    int64_t blocks = (launch.grid.x - 1) / record.tasks_per_block() + 1;
    if (record.walks()) {
      // A few for each place on the largest devices: starting more takes longer than the tasks do.
      constexpr int64_t mostBlocks = 4096;
      blocks = std::min(blocks, mostBlocks);
    }
    if (blocks > maxGridX || launch.grid.y > maxGridYZ || launch.grid.z > maxGridYZ) {
      return {KIMI_UNSUPPORTED, place(item) + ": a grid of " + std::to_string(blocks) + " x " +
                                    std::to_string(launch.grid.y) + " x " + std::to_string(launch.grid.z) +
                                    " blocks; a GPU takes up to 2147483647 x 65535 x 65535: make the inputs smaller"};
    }
    item.gridX = static_cast<unsigned>(blocks);
    item.gridY = static_cast<unsigned>(launch.grid.y);
    item.gridZ = static_cast<unsigned>(launch.grid.z);
    item.gridExtent = launch.grid.x;
    for (size_t i = 0; i < mapCount(record); ++i) {
      if (Status s = encodeMap(item, i)) {
        return {s.code(), place(item) + ": tensor map " + std::to_string(i) + ": " + s.message()};
      }
    }
  }
  return {};
}

Status LaunchList::encodeMap(Item &item, size_t index) {
  const fb::TensorMap &record = *item.kernel->record->tensor_maps()->Get(index);
  const Plan &plan = frame.layout();
  const ArgPlan &arg = plan.args[plan.launches[item.launch].firstArg + record.arg()];
  const int64_t *view = item.words + (arg.word - plan.launches[item.launch].firstWord);
  // A map is made anew when the view or the kernel has changed.
  std::vector<int64_t> &key = item.mapKeys[index];
  size_t length = 2 + 2 * arg.rank;
  int64_t kernel = static_cast<int64_t>(reinterpret_cast<intptr_t>(item.kernel));
  if (key.size() == length && key[0] == kernel && std::equal(key.begin() + 1, key.end(), view)) {
    return {};
  }
  key.clear();
  if (Status s = encodeTensorMap(program.device().driver(), record, view, arg.rank, item.maps[index])) {
    return s;
  }
  key.push_back(kernel);
  key.insert(key.end(), view, view + length - 1);
  return {};
}

Status LaunchList::launch(const Item &item, Stream stream) const {
  const fb::Kernel &record = *item.kernel->record;
  LaunchAttribute attribute = {};
  attribute.id = ProgrammaticStreamSerialization;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  LaunchConfig config = {};
  config.gridX = item.gridX;
  config.gridY = item.gridY;
  config.gridZ = item.gridZ;
  config.blockX = static_cast<unsigned>(record.threads());
  config.blockY = config.blockZ = 1;
  config.sharedBytes = static_cast<unsigned>(record.shared_bytes());
  config.stream = stream;
  config.attributes = &attribute;
  config.attributeCount = record.pdl() ? 1 : 0;
  Result result = program.device().driver().launchKernelEx(&config, item.kernel->function,
                                                           const_cast<void **>(item.parameters.data()), nullptr);
  return result == Success ? Status() : program.device().driver().check(result, place(item));
}

} // namespace kimi::cuda
