// SPDX-License-Identifier: Apache-2.0
//
// Completion for bash: a script with a case branch for each command and each
// option that has choices.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "flags/command_line.h"

namespace qgemm::flags::internal {
namespace {

void AddOptionNames(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      std::string text = absl::StrCat("--", name);
      if (std::find(names->begin(), names->end(), text) == names->end()) {
        names->push_back(std::move(text));
      }
    }
  }
}

// The shell's case branch that completes the choices of each option.
std::string ChoiceBranches(const CLI::App& app) {
  std::string branches;
  for (const CLI::Option* option : app.get_options()) {
    const std::string choices = option->get_type_name();
    if (!absl::StrContains(choices, '|')) continue;
    absl::StrAppend(&branches, "    --", option->get_lnames().front(),
                    ") words=\"", absl::StrReplaceAll(choices, {{"|", " "}}),
                    "\" ;;\n");
  }
  return branches;
}

// The words that may follow the command: commands of its own, then options.
std::string WordsAfter(const CLI::App& app) {
  std::vector<std::string> words = CommandNames(app);
  for (std::string& name : OptionNames(app)) words.push_back(std::move(name));
  return absl::StrJoin(words, " ");
}

// The shell's case branches of a command and, as "group:command", of those
// inside it; and the choices of their options.
struct CommandBranches {
  std::string words;
  std::string choices;
};

void AddBranches(const CLI::App& app, const std::string& name,
                 CommandBranches* branches) {
  absl::StrAppend(&branches->words, "    ", name, ") words=\"", WordsAfter(app),
                  "\" ;;\n");
  absl::StrAppend(&branches->choices, ChoiceBranches(app));
  for (const CLI::App* command : app.get_subcommands({})) {
    AddBranches(*command, absl::StrCat(name, ":", command->get_name()),
                branches);
  }
}

}  // namespace

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* taker = &app; taker != nullptr;
       taker = taker->get_fallthrough() ? taker->get_parent() : nullptr) {
    AddOptionNames(*taker, &names);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  return names;
}

// A word that begins an option and an "=" between them are words of their own
// to bash. A command inside a group is the third word; while that is typed, the
// group's words complete it.
std::string BashCompletion(const CLI::App& app) {
  const std::string& program = app.get_name();
  CommandBranches branches;
  branches.choices = ChoiceBranches(app);
  std::string groups;
  for (const CLI::App* command : app.get_subcommands({})) {
    AddBranches(*command, command->get_name(), &branches);
    if (CommandNames(*command).empty()) continue;
    absl::StrAppend(&groups, groups.empty() ? "" : "|", command->get_name());
  }
  const std::string nested =
      groups.empty()
          ? ""
          : absl::StrCat("  case \"$command\" in\n    ", groups,
                         ") if [ \"$COMP_CWORD\" -gt 2 ]; then ",
                         "command=\"$command:${COMP_WORDS[2]}\"; fi ;;\n",
                         "  esac\n");
  return absl::StrCat(
      "_", program, "() {\n",
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" option=\"\"\n",
      "  local command=\"${COMP_WORDS[1]}\" words=\"", WordsAfter(app), "\"\n",
      nested, "  case \"$command\" in\n", branches.words, "    *) ;;\n  esac\n",
      "  if [ \"$word\" = \"=\" ]; then\n",
      "    option=\"${COMP_WORDS[COMP_CWORD-1]}\" word=\"\"\n",
      "  elif [ \"${COMP_WORDS[COMP_CWORD-1]}\" = \"=\" ]; then\n",
      "    option=\"${COMP_WORDS[COMP_CWORD-2]}\"\n", "  fi\n",
      "  if [ -n \"$option\" ]; then words=\"\"; fi\n",
      "  case \"$option\" in\n", branches.choices, "    *) ;;\n  esac\n",
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n", "}\n",
      "complete -o default -F _", program, " ", program, "\n");
}

}  // namespace qgemm::flags::internal
