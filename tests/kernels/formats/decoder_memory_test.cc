// SPDX-License-Identifier: Apache-2.0
//
// Memory that decoders take, against what DecoderBytes says of it.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/formats/weights_decoder.h"
#include "tests/kernels/formats/codec_testing.h"

namespace qgemm {
namespace {

constexpr int64_t kPieceBytes = 65536;

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Keeps nothing; looks at the heap at each call.
class HeapWatchingSink final : public WeightsSink {
 public:
  absl::Status Begin(const WeightsHeader&) override { return Look(); }
  absl::Status WriteCodes(const CodePanel&) override { return Look(); }
  absl::Status WriteScales(const GroupPanel&) override { return Look(); }
  absl::Status WriteZeros(const GroupPanel&) override { return Look(); }
  absl::Status WriteDense(const DensePanel&) override { return Look(); }
  absl::Status SetTensorScale(float) override { return Look(); }

  absl::Status Look() {
    peak_bytes_ = std::max(peak_bytes_, HeapBytes());
    return absl::OkStatus();
  }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  int64_t peak_bytes_ = 0;
};

// Most heap that decoding takes at one time.
int64_t PeakBytes(Upload* upload) {
  const int64_t before = HeapBytes();
  HeapWatchingSink sink;
  const std::unique_ptr<WeightsDecoder> decoder =
      NewWeightsDecoder(upload->spec(), &sink);
  for (const SectionSize& section : SectionsOf(upload->spec())) {
    const std::vector<uint8_t>& bytes = (*upload)[section.section];
    for (int64_t offset = 0; offset < section.bytes; offset += kPieceBytes) {
      const int64_t size = std::min(kPieceBytes, section.bytes - offset);
      const absl::Status appended = decoder->Append(
          section.section, absl::MakeConstSpan(bytes.data() + offset, size));
      EXPECT_TRUE(appended.ok()) << appended;
      EXPECT_TRUE(sink.Look().ok());
    }
  }
  EXPECT_TRUE(decoder->Finish().ok());
  return sink.peak_bytes() - before;
}

void ExpectWithinBound(const WeightsSpec& spec, FreshRandom* random) {
  SCOPED_TRACE(CanonicalText(spec));
  Upload upload = RandomUpload(spec, random);
  const int64_t peak_bytes = PeakBytes(&upload);
  std::cout << Name(spec.format) << ": " << peak_bytes << " of "
            << DecoderBytes(spec) << " bytes\n";
  EXPECT_LE(peak_bytes, DecoderBytes(spec));
}

TEST(DecoderMemory, SmallLayersKeepTheBound) {
  FreshRandom random;
  for (const WeightsSpec& spec : AllSpecs()) ExpectWithinBound(spec, &random);
}

TEST(DecoderMemory, LayersOfSeveralPanelsKeepTheBound) {
  FreshRandom random;
  WeightsSpec act_order = Int4Spec(4096, 1024, Int4Layout::kGptqV1, 128);
  act_order.has_group_index = true;
  act_order.has_bias = true;
  for (const WeightsSpec& spec :
       {KbitSpec(2048, 1024, 4), Q4_0Spec(2048, 1024), act_order,
        TernarySpec(2048, 1021, TernaryCoding::kInt8),
        Int4Spec(2048, 1021, Int4Layout::kPlain, 64),
        Int4Spec(4096, 256, Int4Layout::kAwq, 128),
        DenseSpec(1024, 1021, FloatType::kFloat32)}) {
    ExpectWithinBound(spec, &random);
  }
}

TEST(DecoderMemory, LayersOfOneLongRowKeepTheBound) {
  FreshRandom random;
  for (const WeightsSpec& spec :
       {KbitSpec(2, 1 << 20, 2), Q4_0Spec(2, 1 << 20),
        TernarySpec(2, 1 << 20, TernaryCoding::kPacked012),
        Int4Spec(2, 1 << 20, Int4Layout::kPlain, 32),
        DenseSpec(2, 1 << 20, FloatType::kFloat32)}) {
    ExpectWithinBound(spec, &random);
  }
}

// absmax are held until the last has come: once, and with nothing beside them.
TEST(DecoderMemory, AbsmaxAreHeldOnce) {
  constexpr int64_t kN = 8192, kK = 1024;
  FreshRandom random;
  WeightsSpec wide = KbitSpec(kN, kK, 2);
  wide.scale_type = ScaleType::kFloat32;
  WeightsSpec tiled = KbitSpec(kN, kK, 4);
  tiled.kbit_layout = KbitLayout::kTiled;
  WeightsSpec quantized = DenseSpec(kN, kK, FloatType::kFloat16);
  quantized.quantize_to = QuantizeTarget::kKbit;
  quantized.resident_type = WeightsSpec().resident_type;
  quantized.bits = 2;
  for (const WeightsSpec& spec : {wide, tiled, quantized}) {
    ExpectWithinBound(spec, &random);
    constexpr int64_t kAbsmaxBytes = kN * kK / 32 * 4;
    EXPECT_LE(DecoderBytes(spec), kAbsmaxBytes * 3);
  }
}

}  // namespace
}  // namespace qgemm
