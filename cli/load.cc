// SPDX-License-Identifier: Apache-2.0
//
// qgemm load: uploads a layer from a file or made at random.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/layer_source.h"
#include "cli/output.h"
#include "cli/progress_bar.h"

namespace qgemm {
namespace {

class LoadCommand final : public Command {
 public:
  absl::string_view synopsis() const override {
    return "load FILE --name=NAME  |  load --random=KxN --name=NAME";
  }
  absl::string_view summary() const override {
    return "Uploads a layer from a .safetensors, .gguf or .npy file.";
  }
  void AddFlags(FlagSet* flags) override {
    flags->Add(
        "name", &name_,
        "Name to bind to the weights. Default: none, the id names them.");
    layer_.AddTo(flags);
  }
  absl::Status CheckUsage(const std::vector<std::string>& arguments) override {
    if (arguments.size() > 1) return CheckArgumentCount(arguments, 1);
    if (!arguments.empty()) layer_.file = arguments[0];
    return layer_.Check();
  }
  absl::Status Run(const CommonFlags& common) override {
    ASSIGN_OR_RETURN(const auto source, LayerSource::Open(layer_));
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    LoadOptions options;
    options.name = name_;
    options.deadline = common.Deadline();
    const absl::Time start = absl::Now();
    absl::StatusOr<LoadResult> result;
    {
      ProgressBar bar;
      options.progress = [&bar](const LoadProgress& progress) {
        bar.Update(progress);
      };
      result = client->LoadWeights(source->stream(), options);
    }
    RETURN_IF_ERROR(result.status());
    Report(*result, absl::Now() - start, common.json);
    return absl::OkStatus();
  }

 private:
  static void Report(const LoadResult& result, absl::Duration elapsed,
                     bool json) {
    if (json) {
      OrderedJson object = ToJson(result.weights);
      object["deduplicated"] = result.deduplicated;
      object["flushed_blocks"] = result.flushed_blocks;
      object["seconds"] = absl::ToDoubleSeconds(elapsed);
      Print(FormatJson(object));
      return;
    }
    auto fields = FieldsOf(result.weights);
    fields.emplace_back(
        "sent",
        result.deduplicated
            ? "nothing: the server held it already"
            : absl::StrCat("in ", absl::FormatDuration(absl::Trunc(
                                      elapsed, absl::Milliseconds(1)))));
    if (result.flushed_blocks > 0) {
      fields.emplace_back("blocks rounded to zero",
                          absl::StrCat(result.flushed_blocks));
    }
    Print(FormatFields(fields));
  }

  std::string name_;
  LayerFlags layer_;
};

}  // namespace

std::unique_ptr<Command> NewLoadCommand() {
  return std::make_unique<LoadCommand>();
}

}  // namespace qgemm
