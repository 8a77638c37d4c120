// autotune config show: the settings in force, and where each comes from.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tuner/cli/commands.h"
#include "tuner/cli/settings.h"
#include "tuner/model/data_files.h"
#include "tuner/store/store.h"

namespace tuner {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Place {
  std::string what;
  std::string path;
  bool exists = false;
};

std::vector<Place> places() {
  std::vector<Place> all;
  for (const std::string& path : settings_files()) all.push_back({"settings", path});
  all.push_back({"profiles, stacks, models of your own", user_data_folder()});
  all.push_back({"stored runs", default_store_path()});
  for (Place& place : all) place.exists = std::filesystem::exists(place.path);
  return all;
}

// Whether a stronger setting of the same scope hides this one; a command's own table also hides
// the general one for that command, but there only.
bool is_hidden(const std::vector<Setting>& all, size_t index) {
  for (size_t i = 0; i < index; ++i)
    if (all[i].option == all[index].option &&
        (all[i].command.empty() || all[i].command == all[index].command))
      return true;
  return false;
}

std::string settings_text(const Settings& settings, bool origin) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<Setting>& all = settings.all();
  for (size_t i = 0; i < all.size(); ++i) {
    const bool hidden = is_hidden(all, i);
    if (hidden && !origin) continue;
    std::vector<std::string> row = {all[i].option.substr(2), all[i].value,
                                    all[i].command.empty() ? "all" : all[i].command};
    if (origin) row.push_back(all[i].origin + (hidden ? " (hidden by a stronger one)" : ""));
    rows.push_back(std::move(row));
  }
  std::vector<std::string> header = {"SETTING", "VALUE", "COMMANDS"};
  if (origin) header.emplace_back("ORIGIN");
  return rows.empty() ? "no settings; every option has its default\n"
                      : format_table(header, rows, output_width());
}

std::string places_text() {
  std::vector<std::vector<std::string>> rows;
  for (const Place& place : places())
    rows.push_back({place.what, place.exists ? "there" : "not there", place.path});
  return "\n" + format_table({"PLACE", "", "PATH"}, rows, output_width()) +
         "Any option may also be set as a variable: AUTOTUNE_GPU for --gpu.\n";
}

OrderedJson config_json(const Settings& settings) {
  OrderedJson answer = {{"schema", "autotune.config/1"}};
  answer["settings"] = OrderedJson::array();
  const std::vector<Setting>& all = settings.all();
  for (size_t i = 0; i < all.size(); ++i)
    answer["settings"].push_back(
        {{"option", all[i].option},
         {"value", all[i].value},
         {"command", all[i].command.empty() ? OrderedJson() : OrderedJson(all[i].command)},
         {"origin", all[i].origin},
         {"in_force", !is_hidden(all, i)}});
  answer["places"] = OrderedJson::array();
  for (const Place& place : places())
    answer["places"].push_back(
        {{"what", place.what}, {"path", place.path}, {"exists", place.exists}});
  return answer;
}

int run_config_show(const Arguments& arguments) {
  const Settings settings = Settings::load(all_commands());
  const bool origin = arguments.flag("--origin");
  if (arguments.flag("--json"))
    print_result(json_text(config_json(settings)) + "\n");
  else
    print_result(settings_text(settings, origin) + (origin ? places_text() : ""));
  return 0;
}

}  // namespace

Command config_command() {
  return {
      .words = "config show",
      .summary = "Show the settings in force; with --origin where each comes from",
      .description =
          "Any option can have a value of yours as its default. The command line is stronger than "
          "the environment (AUTOTUNE_GPU for --gpu), that than ./autotune.toml, and that than "
          "config.toml in the folder for configuration. In a file, `gpu = \"h100-80gb\"` at the "
          "top "
          "is for every command that has the option, below [train] or [estimate.train] for that "
          "command. Lists stand in brackets, and true or false switches a flag.",
      .examples = {{"config show", "The settings in force"},
                   {"config show --origin", "With the place of each, and the places looked at"}},
      .options = {{.name = "--origin", .help = "Show where each setting comes from"},
                  json_option()},
      .run = run_config_show};
}

}  // namespace tuner
