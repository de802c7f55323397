// SPDX-License-Identifier: Apache-2.0
//
// Headers as the codecs make them, filled with random panels.

#include "bench/synthetic_layer.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/status_macros.h"
#include "kernels/formats/codebooks.h"
#include "kernels/matrix/weights.h"

namespace qgemm {
namespace {

constexpr int64_t kPanelRows = 16;

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

WeightsHeader HeaderOf(const BenchCase& bench_case) {
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

// Codes below `limit`, one a byte. `limit` divides 2^32 or is small beside it.
std::vector<uint8_t> RandomBytes(int64_t count, int limit,
                                 std::mt19937_64* random) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = ((*random)() >> 32) % limit;
  return bytes;
}

// Magnitudes of 2^-9 to 2^-6, as trained layers have.
std::vector<uint8_t> RandomScales(ScaleType type, int64_t count,
                                  std::mt19937_64* random) {
  std::vector<uint8_t> bytes(count * SizeOf(type));
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* scale = bytes.data() + i * SizeOf(type);
    const uint32_t draw = (*random)() >> 32;
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
  }
  return bytes;
}

absl::Status WriteQuantized(const WeightsHeader& header,
                            std::mt19937_64* random, WeightsSink* sink) {
  // A window slides over one pool of random codes: drawing every code anew
  // would take far longer than to repack it.
  const int codes =
      header.bits == 2 && header.integer_codes ? 3 : 1 << header.bits;
  const int64_t panel = kPanelRows * header.k;
  const std::vector<uint8_t> pool = RandomBytes(2 * panel, codes, random);
  const int64_t groups = header.groups_per_row();
  for (int64_t row = 0; row < header.n; row += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, header.n - row);
    const int64_t window = (*random)() % panel;
    RETURN_IF_ERROR(sink->WriteCodes(
        {row, rows, 0, header.k,
         absl::MakeConstSpan(pool).subspan(window, rows * header.k)}));
    const std::vector<uint8_t> scales =
        RandomScales(header.scale_type, rows * groups, random);
    RETURN_IF_ERROR(sink->WriteScales({row, rows, 0, groups, scales}));
    if (!header.has_zeros) continue;
    const std::vector<uint8_t> zeros = RandomBytes(rows * groups, 16, random);
    RETURN_IF_ERROR(sink->WriteZeros({row, rows, 0, groups, zeros}));
  }
  return absl::OkStatus();
}

absl::Status WriteDense(const WeightsHeader& header, std::mt19937_64* random,
                        WeightsSink* sink) {
  const int64_t panel = kPanelRows * header.k;
  std::vector<uint8_t> pool(2 * panel * 2);
  for (int64_t i = 0; i < 2 * panel; ++i) {
    const float value = static_cast<int32_t>((*random)() >> 32) * 0x1p-36f;
    StoreFloat(header.dense_type, value, pool.data() + 2 * i);
  }
  for (int64_t row = 0; row < header.n; row += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, header.n - row);
    const int64_t window = (*random)() % panel;
    RETURN_IF_ERROR(sink->WriteDense(
        {row, rows,
         absl::MakeConstSpan(pool).subspan(2 * window, 2 * rows * header.k)}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ResidentWeights>> MakeSyntheticLayer(
    const BenchCase& bench_case, uint64_t seed, Backend* backend) {
  std::mt19937_64 random(seed);
  const WeightsHeader header = HeaderOf(bench_case);
  ASSIGN_OR_RETURN(std::unique_ptr<WeightsBuilder> builder,
                   backend->NewBuilder());
  RETURN_IF_ERROR(builder->Begin(header));
  if (header.kind == WeightsHeader::Kind::kDense) {
    RETURN_IF_ERROR(WriteDense(header, &random, builder.get()));
  } else {
    RETURN_IF_ERROR(WriteQuantized(header, &random, builder.get()));
  }
  return builder->Finish();
}

}  // namespace qgemm
