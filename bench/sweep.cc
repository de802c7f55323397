// SPDX-License-Identifier: Apache-2.0
//
// A sweep is a few blocks, each all combinations of its four lists.

#include "bench/sweep.h"

#include <set>
#include <string>
#include <tuple>

#include "base/status_macros.h"

namespace qgemm {
namespace {

constexpr char kAllShapes[] =
    "8192x28672,28672x8192,8192x10240,8192x8192,4096x14336,14336x4096,"
    "4096x11008,11008x4096,4096x4096,5120x13824,3584x18944,18944x3584,"
    "2048x10240,2048x1536,1024x4096,14336x8192";
constexpr char kAllRows[] = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096";
constexpr char kAllFormats[] =
    "kbit2,kbit3,kbit4,kbit5,q4_0,int4,ternary,dense";
constexpr char kAllButKbit4[] = "kbit2,kbit3,kbit5,q4_0,int4,ternary,dense";

using Blocks = std::vector<SweepText>;

Blocks HostBlocks(SweepSize size) {
  if (size == SweepSize::kQuick) {
    return {{"4096x4096", "1,8", "kbit4,q4_0", "fp16"}};
  }
  return {{"4096x14336,14336x4096", "1,16", kAllFormats, "fp16"}};
}

Blocks GpuBlocks(SweepSize size) {
  if (size == SweepSize::kQuick) {
    return {{"8192x28672,28672x8192,4096x14336,14336x4096,4096x4096,2048x1536,"
             "1024x4096",
             "1,16,32,64", "kbit4", "fp16"},
            {"8192x28672", "1,16", kAllButKbit4, "fp16"}};
  }
  return {
      {kAllShapes, kAllRows, "kbit4", "fp16"},
      {"8192x28672,28672x8192", "1,16,64", "kbit4", "bf16"},
      {"8192x28672,28672x8192,4096x14336,4096x4096", "1,16,64", kAllButKbit4,
       "fp16"},
      {"1024x4096,4096x11008", "32,64", "ternary", "fp16"},
      {"8192x28672,4096x4096", "128,512", "q4_0", "fp16"},
      {"8192x28672,4096x4096", "1,16,64,128,512", "q4_0,int4,ternary", "fp32"}};
}

Blocks BlocksOf(SweepSize size, SweepTarget target) {
  if (size == SweepSize::kFull) {
    return {{kAllShapes, kAllRows, kAllFormats, "fp16,bf16,fp32"}};
  }
  return target == SweepTarget::kGpu ? GpuBlocks(size) : HostBlocks(size);
}

const std::string& Or(const std::string& text, const std::string& fallback) {
  return text.empty() ? fallback : text;
}

auto KeyOf(const BenchCase& one) {
  return std::make_tuple(one.shape.k, one.shape.n, one.format, one.dtype,
                         one.mode, one.m);
}

}  // namespace

absl::StatusOr<std::vector<BenchCase>> CasesOf(const SweepText& text,
                                               SweepSize size,
                                               SweepTarget target) {
  std::vector<BenchCase> cases;
  std::set<decltype(KeyOf(BenchCase()))> seen;
  for (const SweepText& block : BlocksOf(size, target)) {
    const SweepText wanted = {
        Or(text.shapes, block.shapes), Or(text.m, block.m),
        Or(text.formats, block.formats), Or(text.dtypes, block.dtypes)};
    ASSIGN_OR_RETURN(const std::vector<BenchCase> block_cases,
                     ExpandSweep(wanted));
    for (const BenchCase& one : block_cases) {
      if (seen.insert(KeyOf(one)).second) cases.push_back(one);
    }
  }
  return cases;
}

}  // namespace qgemm
