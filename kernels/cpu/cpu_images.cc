// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/cpu_images.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/checked_math.h"
#include "base/memory_checksum.h"
#include "base/status_macros.h"
#include "kernels/cpu/aligned_memory.h"
#include "kernels/host/batch_checks.h"
#include "kernels/host/layer_detail.h"

namespace qgemm::cpu {
namespace {

// Bytes that a sink asks for at a time.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

// The layer's own memory takes the bytes.
class CpuImageSink final : public ImageSink {
 public:
  CpuImageSink(CpuWeightsParts parts, uint64_t checksum)
      : parts_(std::move(parts)), checksum_(checksum) {}

  absl::StatusOr<absl::Span<uint8_t>> Next() override {
    const int64_t offset = filled_bytes_;
    filled_bytes_ = std::min(parts_.memory.size_bytes(), offset + kPieceBytes);
    return absl::MakeSpan(parts_.memory.data() + offset,
                          filled_bytes_ - offset);
  }

  absl::StatusOr<std::shared_ptr<const ResidentWeights>> Finish() override {
    parts_.checksum =
        MemoryChecksum(parts_.memory.data(), parts_.memory.size_bytes());
    if (parts_.checksum != checksum_) {
      return absl::DataLossError("image: its bytes have another checksum");
    }
    return std::make_shared<const CpuWeights>(std::move(parts_));
  }

 private:
  CpuWeightsParts parts_;
  const uint64_t checksum_;
  int64_t filled_bytes_ = 0;
};

absl::StatusOr<const CpuWeights*> OursOf(const ResidentWeights& weights) {
  const auto* const ours = dynamic_cast<const CpuWeights*>(&weights);
  if (ours != nullptr) return ours;
  return absl::InvalidArgumentError("image: not a layer of the cpu backend");
}

}  // namespace

std::string DetailOf(const CpuWeightsParts& parts) {
  std::string detail;
  AppendShape(parts.shape, &detail);
  AppendFlag(parts.small_differences, &detail);
  AppendFlag(parts.moderate_scales, &detail);
  AppendFlag(parts.tables.has_low, &detail);
  AppendBytesOf(parts.tables.entries, &detail);
  AppendBytesOf(parts.tables.rounded, &detail);
  AppendBytesOf(parts.tables.high, &detail);
  AppendBytesOf(parts.tables.low, &detail);
  AppendBytesOf(parts.zero_unit, &detail);
  AppendBytesOf(parts.float_factor, &detail);
  AppendBytesOf(parts.integer_factor, &detail);
  return detail;
}

absl::StatusOr<CpuWeightsParts> PartsOf(const LayerImage& image,
                                        const BackendLimits& limits) {
  FieldReader reader(image.detail);
  CpuWeightsParts parts;
  parts.shape = ReadShape(&reader);
  parts.small_differences = ReadFlag(&reader);
  parts.moderate_scales = ReadFlag(&reader);
  parts.tables.has_low = ReadFlag(&reader);
  parts.tables.entries = ReadBytesOf<std::array<float, 32>>(&reader);
  parts.tables.rounded = ReadBytesOf<std::array<float, 32>>(&reader);
  parts.tables.high = ReadBytesOf<std::array<uint16_t, 32>>(&reader);
  parts.tables.low = ReadBytesOf<std::array<uint16_t, 32>>(&reader);
  parts.zero_unit = ReadBytesOf<float>(&reader);
  parts.float_factor = ReadBytesOf<double>(&reader);
  parts.integer_factor = ReadBytesOf<double>(&reader);
  if (!reader.at_end()) {
    return absl::InvalidArgumentError(
        "not a layer's detail of the cpu backend");
  }
  RETURN_IF_ERROR(CheckLayerLimits(parts.shape, limits));
  ASSIGN_OR_RETURN(parts.layout, LayoutOf(parts.shape));
  const int64_t bytes = AlignedMemory::HeldBytes(parts.layout.total_bytes);
  if (bytes == image.size_bytes) return parts;
  return absl::InvalidArgumentError(absl::StrCat(
      "image of ", image.size_bytes, " bytes, of a shape that takes ", bytes));
}

absl::StatusOr<LayerImage> CpuImages::Describe(const ResidentWeights& weights) {
  ASSIGN_OR_RETURN(const CpuWeights* const ours, OursOf(weights));
  const CpuWeightsParts& parts = ours->parts();
  const int64_t bytes = parts.memory.size_bytes();
  return LayerImage{bytes, MemoryChecksum(parts.memory.data(), bytes),
                    DetailOf(parts)};
}

absl::Status CpuImages::Copy(const ResidentWeights& weights,
                             int64_t offset_bytes, absl::Span<uint8_t> bytes) {
  ASSIGN_OR_RETURN(const CpuWeights* const ours, OursOf(weights));
  const int64_t size = static_cast<int64_t>(bytes.size());
  RETURN_IF_ERROR(
      CheckPart(offset_bytes, size, ours->parts().memory.size_bytes()));
  std::memcpy(bytes.data(), ours->parts().memory.data() + offset_bytes, size);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ImageSink>> CpuImages::NewSink(
    const LayerImage& image) {
  ASSIGN_OR_RETURN(CpuWeightsParts parts, PartsOf(image, limits_));
  RETURN_IF_ERROR(TakeMemory(memory_, &parts));
  return std::make_unique<CpuImageSink>(std::move(parts), image.checksum);
}

}  // namespace qgemm::cpu
