// SPDX-License-Identifier: Apache-2.0
//
// Headers as the codecs make them, filled with random panels.

#include "bench/synthetic_layer.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/formats/codebooks.h"

namespace qgemm {
namespace {

constexpr int64_t kPanelRows = 16;
// Scales of a window, at least: panels with few still differ.
constexpr int64_t kMinGroupWindow = 4096;

WeightsHeader KbitHeader(int bits) {
  WeightsHeader header;
  header.bits = bits;
  header.codebook = DefaultKbitCodebook(bits);
  header.group_size = 32;
  header.scale_type = ScaleType::kE4m4;
  return header;
}

WeightsHeader IntegerHeader(int bits, int first, int64_t group_size) {
  WeightsHeader header;
  header.bits = bits;
  for (int i = 0; i < 1 << bits; ++i) header.codebook.push_back(first + i);
  header.group_size = group_size;
  header.scale_type = ScaleType::kFloat16;
  header.integer_codes = true;
  return header;
}

// Random elements, more than a panel needs, of which each panel takes a window
// that starts elsewhere: drawing every element anew would take far longer than
// to repack it.
class RandomPool {
 public:
  // Windows of up to `window` elements of `element_bytes`; `draw` stores one
  // element made of a random number.
  template <typename Draw>
  RandomPool(int64_t window, int64_t element_bytes, std::mt19937_64* random,
             Draw draw)
      : starts_(window),
        element_bytes_(element_bytes),
        bytes_(2 * window * element_bytes) {
    for (int64_t i = 0; i < 2 * window; ++i) {
      draw(static_cast<uint32_t>((*random)() >> 32),
           bytes_.data() + i * element_bytes);
    }
  }

  // Valid as long as the pool.
  absl::Span<const uint8_t> Window(int64_t elements,
                                   std::mt19937_64* random) const {
    const int64_t start = static_cast<int64_t>((*random)() % starts_);
    return absl::MakeConstSpan(bytes_).subspan(start * element_bytes_,
                                               elements * element_bytes_);
  }

 private:
  const int64_t starts_;
  const int64_t element_bytes_;
  std::vector<uint8_t> bytes_;
};

// Codes or zeros below `limit`, which is small beside 2^32.
RandomPool CodePool(int64_t window, uint32_t limit, std::mt19937_64* random) {
  return RandomPool(window, 1, random, [limit](uint32_t draw, uint8_t* code) {
    *code = static_cast<uint8_t>(draw % limit);
  });
}

// Magnitudes of 2^-9 to 2^-6, as trained layers have.
RandomPool ScalePool(int64_t window, ScaleType type, std::mt19937_64* random) {
  return RandomPool(
      window, SizeOf(type), random, [type](uint32_t draw, uint8_t* scale) {
        const float value =
            (1 + draw % 16 / 16.0f) * 0x1p-9f * (1 << draw / 16 % 3);
        switch (type) {
          case ScaleType::kE4m4:
            *scale = static_cast<uint8_t>(32 + draw % 48);
            break;
          case ScaleType::kFloat16:
            StoreFloat(FloatType::kFloat16, value, scale);
            break;
          case ScaleType::kBFloat16:
            StoreFloat(FloatType::kBFloat16, value, scale);
            break;
          case ScaleType::kFloat32:
            StoreFloat(FloatType::kFloat32, value, scale);
            break;
        }
      });
}

absl::Status WriteQuantized(const WeightsHeader& header,
                            std::mt19937_64* random, WeightsSink* sink) {
  const int codes =
      header.bits == 2 && header.integer_codes ? 3 : 1 << header.bits;
  const int64_t groups = header.groups_per_row();
  const RandomPool code_pool = CodePool(kPanelRows * header.k, codes, random);
  const RandomPool scale_pool =
      ScalePool(std::max(kPanelRows * groups, kMinGroupWindow),
                header.scale_type, random);
  const RandomPool zero_pool =
      CodePool(std::max(kPanelRows * groups, kMinGroupWindow), 16, random);
  for (int64_t row = 0; row < header.n; row += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, header.n - row);
    RETURN_IF_ERROR(sink->WriteCodes(
        {row, rows, 0, header.k, code_pool.Window(rows * header.k, random)}));
    RETURN_IF_ERROR(sink->WriteScales(
        {row, rows, 0, groups, scale_pool.Window(rows * groups, random)}));
    if (!header.has_zeros) continue;
    RETURN_IF_ERROR(sink->WriteZeros(
        {row, rows, 0, groups, zero_pool.Window(rows * groups, random)}));
  }
  return absl::OkStatus();
}

absl::Status WriteDense(const WeightsHeader& header, std::mt19937_64* random,
                        WeightsSink* sink) {
  const FloatType type = header.dense_type;
  const RandomPool pool(
      kPanelRows * header.k, SizeOf(type), random,
      [type](uint32_t draw, uint8_t* weight) {
        StoreFloat(type, static_cast<int32_t>(draw) * 0x1p-36f, weight);
      });
  for (int64_t row = 0; row < header.n; row += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, header.n - row);
    RETURN_IF_ERROR(
        sink->WriteDense({row, rows, pool.Window(rows * header.k, random)}));
  }
  return absl::OkStatus();
}

}  // namespace

WeightsHeader SyntheticHeader(const BenchCase& bench_case) {
  const std::string& format = bench_case.format;
  WeightsHeader header;
  if (format == "q4_0") {
    header = IntegerHeader(4, -8, 32);
    header.supports_a8 = true;
  } else if (format == "int4") {
    header = IntegerHeader(4, 0, 128);
    header.has_zeros = true;
  } else if (format == "ternary") {
    header = IntegerHeader(2, -1, bench_case.shape.k);
    header.codebook[3] = 0;
    header.scale_type = ScaleType::kFloat32;
  } else if (format == "dense") {
    header.kind = WeightsHeader::Kind::kDense;
    header.dense_type = bench_case.dtype == FloatType::kFloat16
                            ? FloatType::kFloat16
                            : FloatType::kBFloat16;
  } else {
    header = KbitHeader(format.back() - '0');
  }
  header.n = bench_case.shape.n;
  header.k = bench_case.shape.k;
  return header;
}

void FillRandomActivations(FloatType type, int64_t count, uint8_t* a) {
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<int32_t>(random() >> 32) * 0x1p-31f;
    StoreFloat(type, value, a + i * SizeOf(type));
  }
}

absl::Status WriteSyntheticLayer(const BenchCase& bench_case, uint64_t seed,
                                 WeightsSink* sink) {
  std::mt19937_64 random(seed);
  const WeightsHeader header = SyntheticHeader(bench_case);
  RETURN_IF_ERROR(sink->Begin(header));
  return header.kind == WeightsHeader::Kind::kDense
             ? WriteDense(header, &random, sink)
             : WriteQuantized(header, &random, sink);
}

absl::StatusOr<std::shared_ptr<const ResidentWeights>> MakeSyntheticLayer(
    const BenchCase& bench_case, uint64_t seed, Backend* backend) {
  ASSIGN_OR_RETURN(std::unique_ptr<WeightsBuilder> builder,
                   backend->NewBuilder());
  RETURN_IF_ERROR(WriteSyntheticLayer(bench_case, seed, builder.get()));
  return builder->Finish();
}

}  // namespace qgemm
