// SPDX-License-Identifier: Apache-2.0
//
// The commands about what a server has in memory: pin, touch and wait-ready.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"

namespace qgemm::cli {
namespace {

// The commands' common argument.
class Layers {
 public:
  void AddTo(CLI::App* command, bool required) {
    CLI::Option* const option = command->add_option(
        "WEIGHTS", names_, "Names, ids, or their first digits");
    if (required) option->required();
  }

  absl::StatusOr<std::vector<std::string>> Resolve(absl::Time deadline,
                                                   Client* client) const {
    std::vector<std::string> weights;
    for (const std::string& text : names_) {
      ASSIGN_OR_RETURN(weights.emplace_back(),
                       ResolveWeights(text, deadline, client));
    }
    return weights;
  }

  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
};

class PinCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "pin", "Keeps layers in the server's memory until it ends");
    layers_.AddTo(command, /*required=*/true);
    flags::AddSwitch(command, "off", &off_, "Unpins them");
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    const absl::Time deadline = common.Deadline();
    ASSIGN_OR_RETURN(const auto weights,
                     layers_.Resolve(deadline, client.get()));
    RETURN_IF_ERROR(off_ ? client->UnpinWeights(weights, deadline)
                         : client->PinWeights(weights, deadline));
    Print(common.json ? FormatJson({{"weights", weights}, {"pinned", !off_}})
                      : absl::StrCat(off_ ? "unpinned " : "pinned ",
                                     weights.size(), " layers\n"));
    return absl::OkStatus();
  }

 private:
  Layers layers_;
  bool off_ = false;
};

class TouchCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "touch",
        "Counts as a use of layers, and brings those that are on disk alone");
    layers_.AddTo(command, /*required=*/true);
    flags::AddDuration(command, "lease", &lease_,
                       "They stay in memory for so long, an hour at most");
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    const absl::Time deadline = common.Deadline();
    ASSIGN_OR_RETURN(const auto weights,
                     layers_.Resolve(deadline, client.get()));
    ASSIGN_OR_RETURN(const int64_t resident,
                     client->TouchWeights(weights, lease_, deadline));
    Print(common.json
              ? FormatJson({{"weights", weights}, {"resident", resident}})
              : absl::StrCat(resident, " of ", weights.size(),
                             " layers are in memory\n"));
    return absl::OkStatus();
  }

 private:
  Layers layers_;
  absl::Duration lease_;
};

class WaitReadyCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "wait-ready",
        "Waits, up to --timeout, until the server serves and has layers in "
        "memory");
    layers_.AddTo(command, /*required=*/false);
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    constexpr absl::Duration kPause = absl::Milliseconds(200);
    const absl::Time deadline = common.Deadline();
    while (true) {
      const absl::Status ready = Look(common, deadline);
      const bool may_become_ready = absl::IsUnavailable(ready) ||
                                    absl::IsNotFound(ready) ||
                                    absl::IsResourceExhausted(ready);
      if (ready.ok()) break;
      if (!may_become_ready) return ready;
      if (absl::Now() + kPause >= deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("not ready within --timeout: ", ready.message()));
      }
      absl::SleepFor(kPause);
    }
    Print(common.json ? FormatJson({{"ready", true}}) : "ready\n");
    return absl::OkStatus();
  }

 private:
  // OK, or the reason why it is not ready.
  absl::Status Look(const CommonOptions& common, absl::Time deadline) const {
    ASSIGN_OR_RETURN(const auto client, common.Connect());
    ASSIGN_OR_RETURN(const bool serves, client->IsServing(deadline));
    if (!serves) return absl::UnavailableError("the server does not serve yet");
    if (layers_.size() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const auto weights,
                     layers_.Resolve(deadline, client.get()));
    ASSIGN_OR_RETURN(
        const int64_t resident,
        client->TouchWeights(weights, absl::ZeroDuration(), deadline));
    if (resident == static_cast<int64_t>(weights.size())) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(absl::StrCat(resident, " of ", weights.size(),
                                               " layers are in memory"));
  }

  Layers layers_;
};

}  // namespace

std::unique_ptr<Command> NewPinCommand() {
  return std::make_unique<PinCommand>();
}

std::unique_ptr<Command> NewTouchCommand() {
  return std::make_unique<TouchCommand>();
}

std::unique_ptr<Command> NewWaitReadyCommand() {
  return std::make_unique<WaitReadyCommand>();
}

}  // namespace qgemm::cli
