// SPDX-License-Identifier: Apache-2.0
//
// qgemm load: uploads a layer from a file or made at random.

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/layer_source.h"
#include "cli/output.h"

namespace qgemm::cli {
namespace {

constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);

// "[=====>    ]  52%  16.0 MiB of 31.0 MiB  210.4 MiB/s".
std::string FormatProgress(const LoadProgress& progress,
                           absl::Duration elapsed) {
  constexpr int kWidth = 30;
  const double done = progress.total_bytes > 0
                          ? static_cast<double>(progress.sent_bytes) /
                                static_cast<double>(progress.total_bytes)
                          : 1.0;
  const int filled = static_cast<int>(done * kWidth);
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const int64_t rate =
      seconds > 0 ? static_cast<int64_t>(progress.sent_bytes / seconds) : 0;
  return absl::StrFormat("[%s] %3d%%  %s of %s  %s/s", bar,
                         static_cast<int>(done * 100),
                         FormatBytes(progress.sent_bytes),
                         FormatBytes(progress.total_bytes), FormatBytes(rate));
}

// Draws on stderr if that is a terminal, else stays silent. Not thread-safe.
class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  // Ends the line.
  ~ProgressBar();

  void Update(const LoadProgress& progress);

 private:
  const bool on_terminal_;
  absl::Time start_;
  absl::Time last_drawn_ = absl::InfinitePast();
};

ProgressBar::ProgressBar()
    : on_terminal_(isatty(STDERR_FILENO) == 1), start_(absl::Now()) {}

ProgressBar::~ProgressBar() {
  if (on_terminal_ && last_drawn_ != absl::InfinitePast()) {
    std::fputc('\n', stderr);
  }
}

void ProgressBar::Update(const LoadProgress& progress) {
  if (!on_terminal_) return;
  const absl::Time now = absl::Now();
  // Hashing comes before the first byte and is not part of the rate.
  if (progress.sent_bytes == 0) start_ = now;
  if (progress.sent_bytes < progress.total_bytes &&
      now - last_drawn_ < kRedrawInterval) {
    return;
  }
  last_drawn_ = now;
  const std::string line = FormatProgress(progress, now - start_);
  std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
  std::fflush(stderr);
}

class LoadCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "load",
        "Uploads a layer from a .safetensors, .gguf or .npy file, or a random "
        "one");
    command->add_option("FILE", layer_.file,
                        "Tensor file; --random=KxN goes without one");
    flags::AddOption(command, "name", &name_,
                     "Name to bind to the weights; without one the id names "
                     "them");
    flags::AddSwitch(command, "create_only", &create_only_,
                     "Fails if the name is bound to other weights");
    flags::AddOption(command, "if_match", &if_match_,
                     "Fails unless the name is bound to the weights of this "
                     "id, whole or its first digits, or to the uploaded ones");
    flags::AddSwitch(command, "resume", &resume_,
                     "Goes on with an upload of this layer that was cut off, "
                     "where the server has come to");
    layer_.AddTo(command);
    return command;
  }
  absl::Status CheckUsage() override {
    if ((create_only_ || !if_match_.empty()) && name_.empty()) {
      return absl::InvalidArgumentError(
          "--create_only and --if_match are conditions on the name; give "
          "--name too");
    }
    if (create_only_ && !if_match_.empty()) {
      return absl::InvalidArgumentError(
          "--create_only and --if_match contradict each other; give one");
    }
    return layer_.Check();
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto source, LayerSource::Open(layer_));
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    LoadOptions options;
    options.name = name_;
    options.create_only = create_only_;
    options.resume = resume_;
    options.deadline = common.Deadline();
    ASSIGN_OR_RETURN(options.if_match,
                     ResolveWeights(if_match_, options.deadline, client.get()));
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
      object["resumed_bytes"] = result.resumed_bytes;
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
    if (result.resumed_bytes > 0) {
      fields.emplace_back("continued after", FormatBytes(result.resumed_bytes));
    }
    if (result.flushed_blocks > 0) {
      fields.emplace_back("blocks rounded to zero",
                          absl::StrCat(result.flushed_blocks));
    }
    Print(FormatFields(fields));
  }

  std::string name_;
  bool create_only_ = false;
  bool resume_ = false;
  std::string if_match_;
  LayerOptions layer_;
};

}  // namespace

std::unique_ptr<Command> NewLoadCommand() {
  return std::make_unique<LoadCommand>();
}

}  // namespace qgemm::cli
