// SPDX-License-Identifier: Apache-2.0

#include "cli/layer_source.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/random_values.h"
#include "client/weights_stream.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxRandomExtent = int64_t{1} << 20;
// About what trained linear layers have.
constexpr float kWeightDeviation = 0.02f;

// A --format that is quantized.
struct NamedTarget {
  const char* name;
  QuantizeTarget target;
  int bits;
};
constexpr NamedTarget kTargets[] = {{"kbit2", QuantizeTarget::kKbit, 2},
                                    {"kbit3", QuantizeTarget::kKbit, 3},
                                    {"kbit4", QuantizeTarget::kKbit, 4},
                                    {"kbit5", QuantizeTarget::kKbit, 5},
                                    {"q4_0", QuantizeTarget::kQ4_0, 0},
                                    {"ternary", QuantizeTarget::kTernary, 0},
                                    {"int4", QuantizeTarget::kInt4, 0},
                                    {"dense", QuantizeTarget::kNone, 0}};

const NamedTarget* FindTarget(const std::string& name) {
  for (const NamedTarget& target : kTargets) {
    if (name == target.name) return &target;
  }
  return nullptr;
}

struct Shape {
  int64_t k = 0;
  int64_t n = 0;
};

std::optional<Shape> ParseShape(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  Shape shape;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &shape.k) ||
      !absl::SimpleAtoi(parts[1], &shape.n)) {
    return std::nullopt;
  }
  if (shape.k < 1 || shape.n < 1 || shape.k > kMaxRandomExtent ||
      shape.n > kMaxRandomExtent) {
    return std::nullopt;
  }
  return shape;
}

absl::Status CheckChoice(absl::string_view flag, const std::string& value,
                         const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " is '", value,
                                                 "'; it must be one of ",
                                                 absl::StrJoin(choices, ", ")));
}

ScaleType ScaleTypeOf(const LayerFlags& flags, QuantizeTarget target) {
  if (flags.scale_type == "fp16") return ScaleType::kFloat16;
  if (flags.scale_type == "bf16") return ScaleType::kBFloat16;
  if (flags.scale_type == "fp32") return ScaleType::kFloat32;
  if (flags.scale_type == "e4m4") return ScaleType::kE4m4;
  return target == QuantizeTarget::kKbit ? ScaleType::kE4m4
                                         : ScaleType::kFloat16;
}

}  // namespace

void LayerFlags::AddTo(FlagSet* flags) {
  flags->Add("random", &random,
             "KxN: seeded random weights of that shape instead of a file.");
  flags->Add("seed", &seed, "Seed of random values.");
  flags->Add("tensor", &tensor,
             "The tensor's name; not needed if the file has only one.");
  flags->Add("format", &format,
             "kbit2, kbit3, kbit4, kbit5, q4_0, ternary, int4 or dense. "
             "Default: q4_0 for a Q4_0 tensor, else dense.");
  flags->Add("where", &where,
             "Who quantizes: client (sends the quantized bytes) or server "
             "(sends the tensor as it is).");
  flags->Add("group_size", &group_size,
             "int4: weights that share a scale: 32, 64, 128, or 0 for a row.");
  flags->Add("asymmetric", &asymmetric, "int4: store zero points.");
  flags->Add("scale_type", &scale_type,
             "Of kbit (e4m4, fp16, fp32) or int4 (fp16, bf16, fp32) scales, "
             "quantized by the client. Default: e4m4, fp16.");
}

absl::Status LayerFlags::Check() const {
  if (file.empty() == random.empty()) {
    return absl::InvalidArgumentError("give either a file or --random=KxN");
  }
  if (!random.empty() && !ParseShape(random).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--random is '", random,
                     "'; it must be KxN, each from 1 to ", kMaxRandomExtent));
  }
  if (!random.empty() && !tensor.empty()) {
    return absl::InvalidArgumentError("--tensor needs a file");
  }
  RETURN_IF_ERROR(CheckChoice("where", where, {"client", "server"}));
  if (!format.empty()) {
    std::vector<std::string> names;
    for (const NamedTarget& target : kTargets) names.push_back(target.name);
    RETURN_IF_ERROR(CheckChoice("format", format, names));
  }
  if (!scale_type.empty()) {
    RETURN_IF_ERROR(CheckChoice("scale_type", scale_type,
                                {"e4m4", "fp16", "bf16", "fp32"}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LayerSource>> LayerSource::Open(
    const LayerFlags& flags) {
  RETURN_IF_ERROR(flags.Check());
  std::unique_ptr<LayerSource> source(new LayerSource());
  if (flags.random.empty()) {
    RETURN_IF_ERROR(source->ReadFile(flags));
  } else {
    source->MakeRandom(flags);
  }
  RETURN_IF_ERROR(source->MakeStream(flags));
  return source;
}

absl::Status LayerSource::ReadFile(const LayerFlags& flags) {
  ASSIGN_OR_RETURN(file_, TensorFile::Open(flags.file));
  ASSIGN_OR_RETURN(matrix_, file_->Matrix(flags.tensor));
  return absl::OkStatus();
}

void LayerSource::MakeRandom(const LayerFlags& flags) {
  const Shape shape = *ParseShape(flags.random);
  values_ = RandomValues(shape.n * shape.k, kWeightDeviation,
                         static_cast<uint64_t>(flags.seed));
  matrix_.n = shape.n;
  matrix_.k = shape.k;
  matrix_.type = TensorType::kFloat32;
  matrix_.bytes =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values_.data()),
                          values_.size() * sizeof(float));
}

absl::Status LayerSource::MakeStream(const LayerFlags& flags) {
  if (matrix_.type == TensorType::kQ4_0) {
    if (!flags.format.empty() && flags.format != "q4_0") {
      return absl::InvalidArgumentError(
          absl::StrCat("the tensor is Q4_0 already; --format=", flags.format,
                       " would quantize it twice"));
    }
    return PassThrough();
  }
  const std::string format = flags.format.empty() ? "dense" : flags.format;
  if (format == "dense" || flags.where == "server") return SendDense(flags);
  return QuantizeHere(flags);
}

absl::Status LayerSource::PassThrough() {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = matrix_.n;
  spec.k = matrix_.k;
  RETURN_IF_ERROR(CheckSpec(spec));
  const absl::Span<const uint8_t> bytes = matrix_.bytes;
  const auto position = std::make_shared<size_t>(0);
  stream_.spec = spec;
  stream_.read =
      [bytes, position](absl::Span<uint8_t> buffer) -> absl::StatusOr<int64_t> {
    const size_t count = std::min(buffer.size(), bytes.size() - *position);
    std::memcpy(buffer.data(), bytes.data() + *position, count);
    *position += count;
    return static_cast<int64_t>(count);
  };
  stream_.rewind = [position] {
    *position = 0;
    return absl::OkStatus();
  };
  return absl::OkStatus();
}

absl::Status LayerSource::QuantizeHere(const LayerFlags& flags) {
  const NamedTarget& target = *FindTarget(flags.format);
  EncodeOptions options;
  options.target = target.target;
  options.bits = target.bits;
  options.scale_type = ScaleTypeOf(flags, target.target);
  options.group_size = flags.group_size;
  options.asymmetric = flags.asymmetric;
  if (values_.empty()) values_ = ToFloats(matrix_);
  ASSIGN_OR_RETURN(encoded_, EncodeWeights(values_, matrix_.n, matrix_.k,
                                           /*bias=*/{}, options));
  values_ = {};
  ASSIGN_OR_RETURN(stream_, StreamOf(encoded_));
  return absl::OkStatus();
}

absl::Status LayerSource::SendDense(const LayerFlags& flags) {
  DenseUpload dense;
  dense.n = matrix_.n;
  dense.k = matrix_.k;
  dense.type = FloatTypeOf(matrix_.type);
  dense.bytes = matrix_.bytes;
  if (!flags.format.empty()) {
    const NamedTarget& target = *FindTarget(flags.format);
    dense.target = target.target;
    dense.bits = target.bits;
  }
  dense.group_size = flags.group_size;
  dense.asymmetric = flags.asymmetric;
  if (dense.type != FloatType::kFloat32) dense.resident_type = dense.type;
  ASSIGN_OR_RETURN(stream_, StreamOf(dense));
  return absl::OkStatus();
}

}  // namespace qgemm
