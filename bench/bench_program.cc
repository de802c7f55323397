// SPDX-License-Identifier: Apache-2.0

#include "bench/bench_program.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "bench/synthetic_layer.h"
#include "client/program_wire.h"
#include "loadtest/walk_programs.h"
#include "server/rpc/translate.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 20;

// Places among the programs of a walk through one block.
constexpr std::pair<absl::string_view, size_t> kPlaces[] = {{"layer", 0},
                                                            {"head", 1}};

absl::Status Wrong(absl::string_view option, absl::string_view piece,
                   absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, " = \"", piece, "\": ", reason));
}

// The layer of a shape, "KxN", and a format.
absl::StatusOr<BenchCase> ParseLayer(absl::string_view shape,
                                     absl::string_view format) {
  SweepText text;
  text.shapes = std::string(shape);
  text.formats = std::string(format);
  text.m = "1";
  text.dtypes = "bf16";
  ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, ExpandSweep(text));
  return cases.front();
}

// Pieces "NAME=VALUE" of an option; empty text has none.
absl::StatusOr<std::map<std::string, std::string>> ParsePieces(
    absl::string_view option, absl::string_view text) {
  std::map<std::string, std::string> pieces;
  for (absl::string_view piece : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(piece, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty()) {
      return Wrong(option, piece, "must be NAME=VALUE");
    }
    if (!pieces.insert(parts).second) {
      return Wrong(option, piece, "the name comes twice");
    }
  }
  return pieces;
}

absl::StatusOr<std::map<std::string, BenchCase>> ParseWeights(
    const ProgramSource& source) {
  constexpr char kOption[] = "program_weights";
  ASSIGN_OR_RETURN(const auto pieces, ParsePieces(kOption, source.weights));
  std::map<std::string, BenchCase> weights;
  for (const auto& [name, value] : pieces) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(value, absl::MaxSplits(':', 1));
    const bool has_format = value.find(':') != std::string::npos;
    const absl::StatusOr<BenchCase> layer =
        ParseLayer(parts.first, has_format ? parts.second : source.format);
    if (!layer.ok()) {
      return Wrong(kOption, absl::StrCat(name, "=", value),
                   layer.status().message());
    }
    weights[name] = *layer;
  }
  return weights;
}

absl::StatusOr<ProgramText> ParseConstants(const ProgramSource& source) {
  constexpr char kOption[] = "program_constants";
  ASSIGN_OR_RETURN(const auto pieces, ParsePieces(kOption, source.constants));
  ProgramText text;
  text.text = source.text;
  for (const auto& [name, value] : pieces) {
    int64_t width = 0;
    if (!absl::SimpleAtoi(value, &width) || width < 1 || width > kMaxWidth) {
      return Wrong(kOption, absl::StrCat(name, "=", value),
                   absl::StrCat("a width must be 1 to ", kMaxWidth));
    }
    text.constants[name] = std::vector<float>(width, 1.0f);
  }
  return text;
}

}  // namespace

std::vector<std::string> KnownPrograms() {
  std::vector<std::string> names;
  for (const std::string& model : loadtest::KnownModels()) {
    for (const auto& [part, place] : kPlaces) {
      names.push_back(absl::StrCat(model, "-", part));
    }
  }
  return names;
}

absl::StatusOr<BenchProgram> KnownProgram(const std::string& name,
                                          const std::string& format) {
  const size_t dash = name.rfind('-');
  const std::string model = name.substr(0, dash);
  ASSIGN_OR_RETURN(const loadtest::ModelShape shape,
                   loadtest::ModelShapeOf(model, /*max_blocks=*/1));
  const auto layers = loadtest::WalkLayers(shape);
  std::vector<std::string> names;
  names.reserve(layers.size());
  for (const auto& layer : layers) names.push_back(layer.name);
  const auto programs = loadtest::ProgramsOfWalk(shape, names);
  for (const auto& [part, place] : kPlaces) {
    if (name != absl::StrCat(model, "-", part)) continue;
    BenchProgram known{name, programs[place].program, {}};
    for (const auto& layer : layers) {
      ASSIGN_OR_RETURN(known.weights[layer.name],
                       ParseLayer(absl::StrCat(layer.k, "x", layer.n), format));
    }
    return known;
  }
  return absl::NotFoundError(name);
}

absl::StatusOr<BenchProgram> ParseBenchProgram(const ProgramSource& source) {
  BenchProgram parsed;
  parsed.name = source.name;
  ASSIGN_OR_RETURN(parsed.weights, ParseWeights(source));
  ASSIGN_OR_RETURN(const ProgramText text, ParseConstants(source));
  ASSIGN_OR_RETURN(const v1::Program message, ToWire(text));
  ASSIGN_OR_RETURN(parsed.program, ToProgram(message));
  return parsed;
}

absl::StatusOr<CheckedProgram> Check(const BenchProgram& program) {
  ProgramWeightsMap weights;
  for (const auto& [name, layer] : program.weights) {
    weights[name] = {name, SyntheticHeader(layer)};
  }
  return CheckProgram(program.program, weights);
}

}  // namespace qgemm
