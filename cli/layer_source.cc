// SPDX-License-Identifier: Apache-2.0
//
// Random values, the options of a layer, and the ways to make its stream.

#include "cli/layer_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/weights_stream.h"

namespace qgemm::cli {
namespace {

constexpr int64_t kMaxRandomExtent = int64_t{1} << 20;
// About the deviation of trained linear layers.
constexpr float kWeightDeviation = 0.02f;

// A --format and its parameters.
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

absl::Status ReadShape(const std::string& text,
                       std::optional<RandomShape>* shape) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  RandomShape read;
  const auto is_extent = [](const std::string& digits, int64_t* extent) {
    return absl::SimpleAtoi(digits, extent) && *extent >= 1 &&
           *extent <= kMaxRandomExtent;
  };
  if (parts.size() != 2 || !is_extent(parts[0], &read.k) ||
      !is_extent(parts[1], &read.n)) {
    return absl::InvalidArgumentError(
        absl::StrCat("is not KxN with each from 1 to ", kMaxRandomExtent));
  }
  *shape = read;
  return absl::OkStatus();
}

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit draw a call.
uint64_t Draw(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<float> RandomValues(int64_t count, float deviation, uint64_t seed) {
  // The sum of four uniform 16-bit numbers has this mean, and the standard
  // deviation 65536 * sqrt(4 / 12).
  constexpr float kMean = 2.0f * 65535.0f;
  constexpr float kDeviation = 65536.0f * 0.57735027f;
  const float scale = deviation / kDeviation;
  uint64_t state = seed;
  std::vector<float> values(count);
  for (float& value : values) {
    const uint64_t bits = Draw(&state);
    const auto sum =
        static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                           (bits >> 32 & 0xffff) + (bits >> 48));
    value = (sum - kMean) * scale;
  }
  return values;
}

void LayerOptions::AddTo(CLI::App* app) {
  flags::AddText(
      app, "random",
      [this](const std::string& text) { return ReadShape(text, &random); },
      "Shape of seeded random weights instead of a file")
      ->type_name("KxN");
  flags::AddOption(app, "seed", &seed, "Seed of random values");
  flags::AddOption(app, "tensor", &tensor,
                   "The tensor's name; not needed if the file has only one");
  AddFormatTo(app);
}

void LayerOptions::AddFormatTo(CLI::App* app) {
  std::vector<std::pair<std::string, std::string>> formats;
  for (const NamedTarget& target : kTargets) {
    formats.emplace_back(target.name, target.name);
  }
  flags::AddChoice(app, "format", &format, std::move(formats),
                   "Default: q4_0 for a Q4_0 tensor, else dense");
  flags::AddChoice(
      app, "where", &quantizer,
      {{"client", Quantizer::kClient}, {"server", Quantizer::kServer}},
      "Side that quantizes: client (sends the quantized bytes) or "
      "server (sends the tensor as it is)");
  flags::AddOption(app, "group_size", &group_size,
                   "int4: weights that share a scale: 32, 64, 128, or 0 for a "
                   "row");
  flags::AddSwitch(app, "asymmetric", &asymmetric, "int4: store zero points");
  flags::AddChoice<std::optional<ScaleType>>(
      app, "scale_type", &scale_type,
      {{"e4m4", ScaleType::kE4m4},
       {"fp16", ScaleType::kFloat16},
       {"bf16", ScaleType::kBFloat16},
       {"fp32", ScaleType::kFloat32}},
      "Scales that the client makes: kbit e4m4 (default), fp16, fp32; int4 "
      "fp16 (default), bf16, fp32");
}

absl::Status LayerOptions::Check() const {
  if (file.empty() != random.has_value()) {
    return absl::InvalidArgumentError("give either a file or --random=KxN");
  }
  if (random.has_value() && !tensor.empty()) {
    return absl::InvalidArgumentError(
        "--tensor names a tensor of a file; leave it out with --random");
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerOptions> ReadLayer(const std::string& text,
                                       const LayerOptions& shared) {
  LayerOptions layer = shared;
  absl::string_view random = text;
  if (!absl::ConsumePrefix(&random, "random:")) {
    const std::vector<std::string> parts =
        absl::StrSplit(text, absl::MaxSplits('#', 1));
    layer.file = parts[0];
    if (parts.size() > 1) layer.tensor = parts[1];
    return layer;
  }
  const std::vector<std::string> parts = absl::StrSplit(random, ':');
  const absl::Status shape = ReadShape(parts[0], &layer.random);
  if (!shape.ok() || parts.size() != 2 ||
      !absl::SimpleAtoi(parts[1], &layer.seed)) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, " is not random:KxN:SEED"));
  }
  return layer;
}

absl::StatusOr<std::unique_ptr<LayerSource>> LayerSource::Open(
    const LayerOptions& options) {
  RETURN_IF_ERROR(options.Check());
  std::unique_ptr<LayerSource> source(new LayerSource());
  if (!options.random.has_value()) {
    RETURN_IF_ERROR(source->ReadFile(options));
  } else {
    source->MakeRandom(options);
  }
  RETURN_IF_ERROR(source->MakeStream(options));
  return source;
}

absl::Status LayerSource::ReadFile(const LayerOptions& options) {
  ASSIGN_OR_RETURN(file_, TensorFile::Open(options.file));
  ASSIGN_OR_RETURN(matrix_, file_->Matrix(options.tensor));
  return absl::OkStatus();
}

void LayerSource::MakeRandom(const LayerOptions& options) {
  const RandomShape shape = *options.random;
  values_ = RandomValues(shape.n * shape.k, kWeightDeviation,
                         static_cast<uint64_t>(options.seed));
  matrix_.n = shape.n;
  matrix_.k = shape.k;
  matrix_.type = TensorType::kFloat32;
}

absl::Status LayerSource::MakeStream(const LayerOptions& options) {
  if (matrix_.type == TensorType::kQ4_0) {
    if (!options.format.empty() && options.format != "q4_0") {
      return absl::InvalidArgumentError(
          absl::StrCat("the tensor is Q4_0 already; --format=", options.format,
                       " would quantize it twice"));
    }
    return PassThrough();
  }
  const std::string format = options.format.empty() ? "dense" : options.format;
  if (format == "dense" || options.quantizer == Quantizer::kServer)
    return SendDense(options);
  return QuantizeHere(options);
}

absl::Status LayerSource::PassThrough() {
  WeightsSpec spec;
  spec.format = WireFormat::kQ4_0;
  spec.n = matrix_.n;
  spec.k = matrix_.k;
  return StreamFile(spec);
}

// The matrix as the file has it is the upload that `spec` describes.
absl::Status LayerSource::StreamFile(const WeightsSpec& spec) {
  RETURN_IF_ERROR(CheckSpec(spec));
  const auto position = std::make_shared<int64_t>(0);
  stream_.spec = spec;
  stream_.read =
      [this, position](absl::Span<uint8_t> buffer) -> absl::StatusOr<int64_t> {
    const int64_t count = std::min(static_cast<int64_t>(buffer.size()),
                                   matrix_.size_bytes - *position);
    RETURN_IF_ERROR(file_->Read(matrix_, *position, buffer.first(count)));
    *position += count;
    return count;
  };
  stream_.rewind = [position] {
    *position = 0;
    return absl::OkStatus();
  };
  return absl::OkStatus();
}

absl::Status LayerSource::QuantizeHere(const LayerOptions& options) {
  const NamedTarget& target = *FindTarget(options.format);
  EncodeOptions encode;
  encode.target = target.target;
  encode.bits = target.bits;
  encode.scale_type = options.scale_type.value_or(
      target.target == QuantizeTarget::kKbit ? ScaleType::kE4m4
                                             : ScaleType::kFloat16);
  encode.group_size = options.group_size;
  encode.asymmetric = options.asymmetric;
  if (file_ != nullptr) {
    ASSIGN_OR_RETURN(values_, file_->ReadFloats(matrix_));
  }
  ASSIGN_OR_RETURN(encoded_, EncodeWeights(values_, matrix_.n, matrix_.k,
                                           /*bias=*/{}, encode));
  values_ = {};
  ASSIGN_OR_RETURN(stream_, StreamOf(encoded_));
  return absl::OkStatus();
}

absl::Status LayerSource::SendDense(const LayerOptions& options) {
  DenseUpload dense;
  dense.n = matrix_.n;
  dense.k = matrix_.k;
  dense.type = FloatTypeOf(matrix_.type);
  if (!options.format.empty()) {
    const NamedTarget& target = *FindTarget(options.format);
    dense.target = target.target;
    dense.bits = target.bits;
  }
  dense.group_size = options.group_size;
  dense.asymmetric = options.asymmetric;
  if (dense.type != FloatType::kFloat32) dense.resident_type = dense.type;
  if (file_ != nullptr) return StreamFile(SpecOf(dense));
  dense.bytes =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values_.data()),
                          values_.size() * sizeof(float));
  ASSIGN_OR_RETURN(stream_, StreamOf(dense));
  return absl::OkStatus();
}

}  // namespace qgemm::cli
