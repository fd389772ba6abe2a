//===- LayoutAttr.cpp - syntax, verifier and queries of #tile.layout
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kimi::tile;

/// `[2:1@1, 4:0]`
static ParseResult parseModes(AsmParser &parser, StringRef keyword, SmallVectorImpl<LayoutMode> &modes) {
  if (parser.parseKeyword(keyword)) {
    return failure();
  }
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    LayoutMode mode;
    if (parser.parseInteger(mode.extent) || parser.parseColon() || parser.parseInteger(mode.stride)) {
      return failure();
    }
    if (succeeded(parser.parseOptionalKeyword("at"))) {
      if (parser.parseInteger(mode.dim)) {
        return failure();
      }
    } else if (mode.stride != 0) {
      return parser.emitError(parser.getCurrentLocation(), "expected 'at' and a dim after a stride that is not 0");
    }
    modes.push_back(mode);
    return success();
  });
}

static void printModes(AsmPrinter &printer, StringRef keyword, ArrayRef<LayoutMode> modes) {
  printer << keyword << " [";
  llvm::interleaveComma(modes, printer, [&](const LayoutMode &mode) {
    printer << mode.extent << ":" << mode.stride;
    if (mode.stride != 0) {
      printer << " at " << mode.dim;
    }
  });
  printer << "]";
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SmallVector<LayoutMode> registers, lanes, warps;
  if (parser.parseLess() || parseModes(parser, "registers", registers) || parser.parseComma() ||
      parseModes(parser, "lanes", lanes) || parser.parseComma() || parseModes(parser, "warps", warps) ||
      parser.parseGreater()) {
    return {};
  }
  using Modes = ArrayRef<LayoutMode>;
  return parser.getChecked<LayoutAttr>(parser.getContext(), Modes(registers), Modes(lanes), Modes(warps));
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printModes(printer, "registers", getRegisters());
  printer << ", ";
  printModes(printer, "lanes", getLanes());
  printer << ", ";
  printModes(printer, "warps", getWarps());
  printer << ">";
}

/// The digits of one dim, by stride.
static SmallVector<LayoutMode> digitsOf(ArrayRef<ArrayRef<LayoutMode>> lists, int64_t dim) {
  SmallVector<LayoutMode> digits;
  for (ArrayRef<LayoutMode> list : lists) {
    llvm::copy_if(list, std::back_inserter(digits),
                  [&](const LayoutMode &mode) { return mode.stride != 0 && mode.dim == dim && mode.extent != 1; });
  }
  llvm::sort(digits, [](const LayoutMode &a, const LayoutMode &b) { return a.stride < b.stride; });
  return digits;
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<LayoutMode> registers,
                                 ArrayRef<LayoutMode> lanes, ArrayRef<LayoutMode> warps) {
  constexpr int64_t kMaxExtent = 1 << 20, kMaxDims = 8;
  for (ArrayRef<LayoutMode> list : {registers, lanes, warps}) {
    int64_t product = 1;
    for (const LayoutMode &mode : list) {
      if (mode.extent < 1 || mode.stride < 0 || mode.dim < 0 || mode.extent > kMaxExtent || mode.stride > kMaxExtent ||
          mode.dim >= kMaxDims) {
        return emitError() << "[L1] has the mode " << mode.extent << ":" << mode.stride << " at " << mode.dim
                           << "; extents are positive, strides and dims are not negative, none is huge";
      }
      product *= mode.extent;
      if (product > kMaxExtent) {
        return emitError() << "[L2] has too many registers, lanes or warps";
      }
    }
  }
  if (extentOf(lanes) != 32) {
    return emitError() << "[L2] has " << extentOf(lanes) << " lanes; a warp has 32";
  }
  if (extentOf(warps) > 32 || extentOf(registers) > 1024) {
    return emitError() << "[L2] has " << extentOf(warps) << " warps and " << extentOf(registers)
                       << " registers; a block has at most 32 warps, a fragment 1024 registers a thread";
  }
  for (const LayoutMode &mode : registers) {
    if (mode.stride == 0 && mode.extent != 1) {
      return emitError() << "[L3] repeats registers; only lanes and warps hold copies";
    }
  }
  for (int64_t dim = 0; dim < kMaxDims; ++dim) {
    int64_t expected = 1;
    for (const LayoutMode &mode : digitsOf({registers, lanes, warps}, dim)) {
      if (mode.stride != expected) {
        return emitError() << "[L4] has a mode of stride " << mode.stride << " along dim " << dim << " where "
                           << expected << " comes next; elements would be missing or held twice";
      }
      expected *= mode.extent;
    }
  }
  return success();
}

SmallVector<int64_t> LayoutAttr::coordinates(int64_t reg, int64_t lane, int64_t warp, unsigned rank) const {
  SmallVector<int64_t> result = coordinatesOf(getRegisters(), reg, rank);
  for (unsigned d = 0; d < rank; ++d) {
    result[d] += coordinatesOf(getLanes(), lane, rank)[d] + coordinatesOf(getWarps(), warp, rank)[d];
  }
  return result;
}

bool LayoutAttr::covers(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> extents(shape.size(), 1);
  for (ArrayRef<LayoutMode> list : {getRegisters(), getLanes(), getWarps()}) {
    for (const LayoutMode &mode : list) {
      if (mode.stride == 0) {
        continue;
      }
      if (mode.dim >= static_cast<int64_t>(shape.size())) {
        return false;
      }
      extents[mode.dim] *= mode.extent;
    }
  }
  return ArrayRef<int64_t>(extents) == shape;
}

/// The digits along `axis` taken away: of registers dropped, of threads replicated.
static SmallVector<LayoutMode> sliced(ArrayRef<LayoutMode> modes, int64_t axis) {
  SmallVector<LayoutMode> result(modes);
  for (LayoutMode &mode : result) {
    if (mode.stride != 0 && mode.dim == axis) {
      mode.stride = 0;
      mode.dim = 0;
    }
  }
  return result;
}

LayoutAttr LayoutAttr::slice(int64_t axis) const {
  return makeLayout(getContext(), sliced(getRegisters(), axis), sliced(getLanes(), axis), sliced(getWarps(), axis));
}

LayoutAttr kimi::tile::groupedLayout(LayoutAttr layout, int64_t axis, int64_t group) {
  auto grouped = [&](ArrayRef<LayoutMode> modes) {
    SmallVector<LayoutMode> result;
    for (const LayoutMode &mode : modes) {
      if (mode.stride == 0 || mode.dim != axis) {
        result.push_back(mode);
        continue;
      }
      int64_t within = std::clamp<int64_t>(group / mode.stride, 1, mode.extent); // neighbours of one group
      result.push_back({within, 0, 0});
      if (mode.extent > within) {
        result.push_back({mode.extent / within, std::max<int64_t>(mode.stride * within / group, 1), axis});
      }
    }
    return result;
  };
  return makeLayout(layout.getContext(), grouped(layout.getRegisters()), grouped(layout.getLanes()),
                    grouped(layout.getWarps()));
}

bool LayoutAttr::sameElements(LayoutAttr other) const {
  if (getLanes() != other.getLanes() || getWarps() != other.getWarps() || registerCount() != other.registerCount()) {
    return false;
  }
  // With the threads equal, the registers must fill the same digits along each dim.
  constexpr unsigned kMaxDims = 8;
  auto elements = [&](LayoutAttr layout) {
    SmallVector<SmallVector<int64_t>> all;
    for (int64_t r = 0, e = layout.registerCount(); r < e; ++r) {
      all.push_back(layout.registerOffset(r, kMaxDims));
    }
    llvm::sort(all);
    return all;
  };
  return elements(*this) == elements(other);
}

int64_t LayoutAttr::replication() const {
  int64_t copies = 1;
  for (ArrayRef<LayoutMode> list : {getLanes(), getWarps()}) {
    for (const LayoutMode &mode : list) {
      copies *= mode.stride == 0 ? mode.extent : 1;
    }
  }
  return copies;
}
