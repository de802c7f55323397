// SPDX-License-Identifier: Apache-2.0
//
// Uploads held in memory as streams, their specs and ids; no gRPC.

#include "qgemm/weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/weights_stream.h"

namespace qgemm {
namespace {

constexpr int64_t kHashBufferBytes = int64_t{1} << 20;

// Byte ranges one after the other.
class Pieces {
 public:
  void Add(absl::Span<const uint8_t> piece) {
    if (!piece.empty()) pieces_.push_back(piece);
  }

  absl::StatusOr<int64_t> Read(absl::Span<uint8_t> buffer) {
    if (next_ == pieces_.size()) {
      return absl::OutOfRangeError("read past the end of the weights");
    }
    const absl::Span<const uint8_t> rest = pieces_[next_].subspan(offset_);
    const size_t bytes = std::min(buffer.size(), rest.size());
    std::memcpy(buffer.data(), rest.data(), bytes);
    offset_ += bytes;
    if (bytes == rest.size()) {
      ++next_;
      offset_ = 0;
    }
    return static_cast<int64_t>(bytes);
  }

  void Rewind() { next_ = offset_ = 0; }

 private:
  std::vector<absl::Span<const uint8_t>> pieces_;
  size_t next_ = 0;
  size_t offset_ = 0;
};

template <typename T>
void SetDense(absl::Span<const T> values, FloatType type, DenseUpload* dense) {
  dense->bytes =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                          values.size() * sizeof(T));
  dense->type = type;
}

WeightsStream StreamOfPieces(const WeightsSpec& spec, Pieces pieces) {
  const auto shared = std::make_shared<Pieces>(std::move(pieces));
  WeightsStream stream;
  stream.spec = spec;
  stream.read = [shared](absl::Span<uint8_t> buffer) {
    return shared->Read(buffer);
  };
  stream.rewind = [shared] {
    shared->Rewind();
    return absl::OkStatus();
  };
  return stream;
}

absl::Status CheckSection(Section section, int64_t bytes, int64_t expected) {
  if (bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("section ", Name(section), " has ", bytes,
                   " bytes; shape and format imply ", expected));
}

}  // namespace

void DenseUpload::SetValues(absl::Span<const float> values) {
  SetDense(values, FloatType::kFloat32, this);
}

void DenseUpload::SetValues(absl::Span<const Half> values) {
  SetDense(values, FloatType::kFloat16, this);
}

void DenseUpload::SetValues(absl::Span<const BFloat16> values) {
  SetDense(values, FloatType::kBFloat16, this);
}

WeightsSpec SpecOf(const DenseUpload& dense) {
  WeightsSpec spec;
  spec.format = WireFormat::kDense;
  spec.n = dense.n;
  spec.k = dense.k;
  spec.has_bias = !dense.bias.empty();
  spec.dense_type = dense.type;
  spec.quantize_to = dense.target;
  switch (dense.target) {
    case QuantizeTarget::kNone:
      spec.resident_type = dense.resident_type;
      break;
    case QuantizeTarget::kKbit:
      spec.bits = dense.bits;
      break;
    case QuantizeTarget::kInt4:
      spec.group_size = dense.group_size;
      spec.has_zeros = dense.asymmetric;
      break;
    case QuantizeTarget::kQ4_0:
    case QuantizeTarget::kTernary:
      break;
  }
  return spec;
}

absl::Status CheckSpec(const WeightsSpec& spec) {
  // The server has its own, lower limits; these keep byte counts in 64 bits.
  constexpr int64_t kMaxExtent = int64_t{1} << 28;
  return Validate(spec, WeightsLimits{kMaxExtent, kMaxExtent});
}

absl::StatusOr<WeightsStream> StreamOf(const EncodedWeights& weights) {
  RETURN_IF_ERROR(CheckSpec(weights.spec));
  const std::vector<SectionSize> expected = SectionsOf(weights.spec);
  Pieces pieces;
  size_t matched = 0;
  for (const EncodedWeights::SectionBytes& section : weights.sections) {
    if (section.bytes.empty()) continue;
    if (matched == expected.size() ||
        expected[matched].section != section.section) {
      return absl::InvalidArgumentError(
          absl::StrCat("section ", Name(section.section),
                       " is out of order or not part of the format ",
                       Name(weights.spec.format)));
    }
    RETURN_IF_ERROR(CheckSection(section.section, section.bytes.size(),
                                 expected[matched].bytes));
    pieces.Add(section.bytes);
    ++matched;
  }
  if (matched < expected.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "section ", Name(expected[matched].section), " is missing"));
  }
  return StreamOfPieces(weights.spec, std::move(pieces));
}

absl::StatusOr<WeightsStream> StreamOf(const DenseUpload& dense) {
  const WeightsSpec spec = SpecOf(dense);
  RETURN_IF_ERROR(CheckSpec(spec));
  Pieces pieces;
  for (const SectionSize& size : SectionsOf(spec)) {
    absl::Span<const uint8_t> bytes = dense.bytes;
    if (size.section == Section::kBias) {
      bytes = absl::MakeConstSpan(
          reinterpret_cast<const uint8_t*>(dense.bias.data()),
          dense.bias.size() * sizeof(float));
    }
    RETURN_IF_ERROR(CheckSection(size.section, bytes.size(), size.bytes));
    pieces.Add(bytes);
  }
  return StreamOfPieces(spec, std::move(pieces));
}

absl::Status ReadFully(const WeightsStream& stream,
                       absl::Span<uint8_t> buffer) {
  while (!buffer.empty()) {
    ASSIGN_OR_RETURN(const int64_t bytes, stream.read(buffer));
    if (bytes < 1 || bytes > static_cast<int64_t>(buffer.size())) {
      return absl::InternalError(absl::StrCat("WeightsStream::read returned ",
                                              bytes, " bytes; it must be 1 to ",
                                              buffer.size()));
    }
    buffer.remove_prefix(bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<Sha256Digest> HashOf(const WeightsStream& stream) {
  Sha256 hash;
  hash.Update(CanonicalText(stream.spec));
  const int64_t total_bytes = TotalBytes(stream.spec);
  std::vector<uint8_t> buffer(std::min(kHashBufferBytes, total_bytes));
  for (int64_t done = 0; done < total_bytes;) {
    const int64_t bytes = std::min<int64_t>(buffer.size(), total_bytes - done);
    RETURN_IF_ERROR(ReadFully(stream, absl::MakeSpan(buffer.data(), bytes)));
    hash.Update(
        absl::string_view(reinterpret_cast<const char*>(buffer.data()), bytes));
    done += bytes;
  }
  RETURN_IF_ERROR(stream.rewind());
  return hash.Finish();
}

absl::StatusOr<std::string> IdOf(const EncodedWeights& weights) {
  ASSIGN_OR_RETURN(const WeightsStream stream, StreamOf(weights));
  ASSIGN_OR_RETURN(const Sha256Digest id, HashOf(stream));
  return ToHex(id);
}

}  // namespace qgemm
