//! Keys that stand where they do not belong, or twice.

use super::mistakes;

#[test]
fn a_key_that_stands_twice_is_named_with_the_line_of_the_first() {
    let told = mistakes("listen = \"[::1]:0\"\nlisten = \"[::1]:0\"\ncolour = 3\n");
    assert_eq!(told, ["p.toml:4: listen: duplicate key: the first is in line 3; one of the two has to go"]);
}

#[test]
fn so_is_a_table_and_its_lines_belong_to_the_first() {
    let told = mistakes("[media]\nremote_fetch_enabled = true\n[log]\nlevel = \"info\"\n[media]\ncache_dir = \"x\"\n");
    let advice = "duplicate key: the first is in line 3; put these lines there: a table may be there once";
    assert_eq!(told, [format!("p.toml:7: media: {advice}")]);
}

#[test]
fn of_several_keys_of_one_name_none_is_said_to_be_the_first() {
    let told = mistakes("[[rooms]]\nname = \"a\"\n[[rooms]]\nname = \"b\"\nname = \"c\"\n");
    assert_eq!(told, ["p.toml:7: name: duplicate key"]);
}

#[test]
fn a_key_of_the_file_itself_inside_a_table_is_sent_above_them() {
    let told = mistakes(
        "[media]\nremote_fetch_enabled = false\nsigning_key = \"x\"\ntrusted_proxies = []\n[log]\nlisten = 3\n",
    );
    let advice = "there is no such key here (it belongs above the first [table])";
    let keys = [(5, "media.signing_key"), (6, "media.trusted_proxies"), (8, "log.listen")];
    assert_eq!(told, keys.map(|(line, key)| format!("p.toml:{line}: {key}: {advice}")));
    // At the top the same spelling mistake is one.
    let told = mistakes("listn = \"127.0.0.1:1\"\n");
    assert_eq!(told, ["p.toml:3: listn: there is no such key; did you mean listen?"]);
}
