// SPDX-License-Identifier: Apache-2.0
//
// The commands about a state directory that no server has open: store ls,
// verify and gc. They call no server.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/output.h"
#include "server/storage/state_directory.h"
#include "server/storage/state_survey.h"
#include "server/storage/weights_file.h"

namespace qgemm::cli {
namespace {

void AddFolder(CLI::App* command, std::string* folder) {
  command->add_option("DIR", *folder, "Folder of a server's --state_dir")
      ->required();
}

absl::Status InFolder(const std::string& folder, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(folder, ": ", status.message()));
}

OrderedJson ToJson(const FileCount& count) {
  return {{"files", count.files}, {"bytes", count.bytes}};
}

std::string ToText(const FileCount& count) {
  return absl::StrCat(count.files, ", ", FormatBytes(count.bytes));
}

std::string StateOf(const SurveyedLayer& layer) {
  return layer.state.ok() ? "sound" : std::string(layer.state.message());
}

class StoreListCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "ls", "Lists the layers of a state directory, and what else it has");
    AddFolder(command, &folder_);
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    const auto files = NewSystemFiles(folder_);
    const absl::StatusOr<StateSurvey> survey = SurveyState(files.get());
    RETURN_IF_ERROR(InFolder(folder_, survey.status()));
    Print(common.json ? FormatJson(Json(*survey)) : Text(*survey));
    return absl::OkStatus();
  }

 private:
  static OrderedJson Json(const StateSurvey& survey) {
    OrderedJson layers = OrderedJson::array();
    for (const SurveyedLayer& layer : survey.layers) {
      layers.push_back({{"id", layer.id},
                        {"names", layer.names},
                        {"bytes", layer.file_bytes},
                        {"sound", layer.state.ok()}});
    }
    return {{"layers", layers},
            {"names_log_damaged", survey.log_is_damaged},
            {"unheld", ToJson(survey.unheld)},
            {"images", ToJson(survey.images)},
            {"uploads", ToJson(survey.uploads)},
            {"damaged", ToJson(survey.damaged)}};
  }
  static std::string Text(const StateSurvey& survey) {
    std::vector<std::vector<std::string>> rows = {
        {"NAMES", "BYTES", "STATE", "ID"}};
    for (const SurveyedLayer& layer : survey.layers) {
      rows.push_back(
          {layer.names.empty() ? "-"
                               : FormatNames(layer.names, layer.names.size()),
           FormatBytes(layer.file_bytes), StateOf(layer), ShortId(layer.id)});
    }
    return absl::StrCat(
        FormatTable(rows),
        FormatFields(
            {{"names log", survey.log_is_damaged ? "damaged" : "sound"},
             {"files that nothing holds", ToText(survey.unheld)},
             {"images of layers", ToText(survey.images)},
             {"uploads that were not complete", ToText(survey.uploads)},
             {"files that were set aside", ToText(survey.damaged)}}));
  }

  std::string folder_;
};

class StoreVerifyCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "verify", "Compares the hash of every layer's file to its id");
    AddFolder(command, &folder_);
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    const auto files = NewSystemFiles(folder_);
    const absl::StatusOr<StateSurvey> survey = SurveyState(files.get());
    RETURN_IF_ERROR(InFolder(folder_, survey.status()));
    OrderedJson wrong = OrderedJson::array();
    std::vector<std::vector<std::string>> rows = {{"NAMES", "STATE", "ID"}};
    for (const SurveyedLayer& layer : survey->layers) {
      const absl::Status state = Verify(layer, files.get());
      if (state.ok()) continue;
      wrong.push_back({{"id", layer.id},
                       {"names", layer.names},
                       {"error", state.message()}});
      rows.push_back({FormatNames(layer.names, layer.names.size()),
                      std::string(state.message()), ShortId(layer.id)});
    }
    const size_t count = survey->layers.size();
    if (common.json) {
      Print(FormatJson({{"layers", count}, {"wrong", wrong}}));
    } else {
      Print(wrong.empty() ? absl::StrCat(count, " layers are sound\n")
                          : FormatTable(rows));
    }
    if (wrong.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        folder_, ": ", wrong.size(), " of ", count,
        " layers are wrong; a server sets them aside, and clients load them "
        "again"));
  }

 private:
  static absl::Status Verify(const SurveyedLayer& layer, FileSystem* files) {
    RETURN_IF_ERROR(layer.state);
    ASSIGN_OR_RETURN(auto file,
                     files->OpenToRead(StateDirectory::PathOf(layer.id)));
    ASSIGN_OR_RETURN(const WeightsFileReader reader,
                     WeightsFileReader::Open(std::move(file)));
    return reader.Verify();
  }

  std::string folder_;
};

class StoreCleanCommand final : public Command {
 public:
  CLI::App* AddTo(CLI::App* app) override {
    CLI::App* const command = app->add_subcommand(
        "gc",
        "Removes files that nothing holds, and uploads that were not complete");
    AddFolder(command, &folder_);
    flags::AddSwitch(command, "damaged", &damaged_,
                     "Removes the files that were set aside, too");
    return command;
  }
  absl::Status Run(const CommonOptions& common) override {
    const auto files = NewSystemFiles(folder_);
    ASSIGN_OR_RETURN(const int64_t before, BytesOf(files.get()));
    RETURN_IF_ERROR(InFolder(
        folder_, CleanState(files.get(), damaged_ ? SetAsideFiles::kRemove
                                                  : SetAsideFiles::kKeep)));
    ASSIGN_OR_RETURN(const int64_t after, BytesOf(files.get()));
    const int64_t freed = before - after;
    Print(common.json ? FormatJson({{"freed_bytes", freed}})
                      : absl::StrCat("freed ", FormatBytes(freed), "\n"));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<int64_t> BytesOf(FileSystem* files) const {
    const absl::StatusOr<StateSurvey> survey = SurveyState(files);
    RETURN_IF_ERROR(InFolder(folder_, survey.status()));
    int64_t bytes = survey->unheld.bytes + survey->images.bytes +
                    survey->uploads.bytes + survey->damaged.bytes;
    for (const SurveyedLayer& layer : survey->layers) bytes += layer.file_bytes;
    return bytes;
  }

  std::string folder_;
  bool damaged_ = false;
};

}  // namespace

CLI::App* AddStoreGroup(CLI::App* root) {
  return root
      ->add_subcommand("store",
                       "Lists, verifies and cleans a state directory that no "
                       "server has open")
      ->require_subcommand(1);
}

std::unique_ptr<Command> NewStoreListCommand() {
  return std::make_unique<StoreListCommand>();
}

std::unique_ptr<Command> NewStoreVerifyCommand() {
  return std::make_unique<StoreVerifyCommand>();
}

std::unique_ptr<Command> NewStoreCleanCommand() {
  return std::make_unique<StoreCleanCommand>();
}

}  // namespace qgemm::cli
