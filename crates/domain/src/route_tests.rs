use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::content::tags::{TagContext, tags};
use crate::content::{Animal, Fact, Flag, Kind, Phone, Sex};

fn facts() -> Facts {
    Facts {
        version: 1,
        kind: Fact::silent(Kind::Lost),
        unsure: false,
        nearly: None,
        animal: Fact::silent(Animal::Dog),
        sex: Fact::silent(Sex::F),
        phones: vec![Fact::silent(Phone("+79010000001".to_owned()))],
        contact_names: Vec::new(),
        pet_names: vec![Fact::silent("Жужа".to_owned())],
        breed: Some(Fact::silent("йоркширский терьер".to_owned())),
        age: None,
        colours: Vec::new(),
        city: Some(Fact::silent("Нижний Новгород".to_owned())),
        place: Some(Fact::silent("ТЦ «Солнечный»".to_owned())),
        other_places: Vec::new(),
        when: None,
        vk_accounts: Vec::new(),
        reward: None,
        flags: vec![Fact::silent(Flag::Repeat)],
        home_city: Some("Бор".to_owned()),
    }
}

fn verdict(route: &Value) -> RouteAnswer {
    let facts = facts();
    let context = TagContext { source: Some("Потеряшки НН"), photos: 2, ..TagContext::default() };
    let tags = tags(&facts, context);
    let text = "Пропала собака! Вчера у ТЦ убежала йорк Жужа";
    Route::parse(route).unwrap().check(&Subject { tags: &tags, facts: &facts, text })
}

fn check(route: &Value, passes: bool, because: &str) {
    assert_eq!(verdict(route), RouteAnswer { passes, because: because.to_owned() });
}

fn check_error(route: &Value, message: &str) {
    assert_eq!(Route::parse(route).unwrap_err().to_string(), message);
}

#[test]
fn facts_become_tags() {
    let context = TagContext { source: Some("Потеряшки НН"), photos: 2, ..TagContext::default() };
    let tags: Vec<String> = tags(&facts(), context).into_iter().collect();
    expect_test::expect![[r#"
        animal:dog breed:йоркширский_терьер city:нижний_новгород flag:repeat has:breed has:city has:name has:phone has:photo has:place home:бор kind:lost sex:f source:потеряшки_нн town:нижний_новгород"#]]
    .assert_eq(&tags.join(" "));
}

#[test]
fn any_needs_one() {
    check(&json!({"any": ["kind:found", "kind:lost"]}), true, "any: kind:lost");
    check(&json!({"any": ["kind:found", "animal:cat"]}), false, "any: none of kind:found, animal:cat holds");
}

#[test]
fn all_needs_every_one() {
    check(&json!({"all": ["kind:lost", "animal:dog"]}), true, "all: kind:lost; all: animal:dog");
    check(&json!({"all": ["kind:lost", "animal:cat"]}), false, "all: animal:cat does not hold");
}

#[test]
fn exclude_wins() {
    check(&json!({"any": ["kind:lost"], "exclude": ["flag:repeat"]}), false, "exclude: flag:repeat");
    check(&json!({"exclude": ["kind:ad"]}), true, "nothing excludes it");
}

#[test]
fn values_may_be_lists_and_are_folded() {
    check(&json!({"all": [{"city": ["Пермь", "Нижний Новгород"]}]}), true, "all: city:нижний_новгород");
    check(&json!({"any": ["city:*"]}), true, "any: city:нижний_новгород");
    check(&json!({"any": ["platform:*"]}), false, "any: none of platform:* holds");
}

#[test]
fn expressions_look_at_text_place_name_and_breed() {
    check(&json!({"any": [{"text": "убежал[аи]?\\b"}]}), true, "any: text /убежал[аи]?\\b/ found «убежала»");
    check(&json!({"any": [{"place": "солнечн"}]}), true, "any: place /солнечн/ found «Солнечн»");
    check(&json!({"any": [{"name": "^жужа$"}]}), true, "any: name /^жужа$/ found «Жужа»");
    check(&json!({"exclude": [{"breed": "терьер"}]}), false, "exclude: breed /терьер/ found «терьер»");
}

#[test]
fn conditions_nest() {
    let route = json!({"any": [{"all": ["animal:dog", {"not": "sex:m"}]}, {"phone": "+79990000000"}]});
    check(&route, true, "any: animal:dog and not sex:m");
    check(&json!({"all": [{"phone": "+79010000001"}]}), true, "all: phone +79010000001");
}

#[test]
fn an_empty_route_is_open_and_says_so() {
    check(&json!({}), true, "the route is open");
    assert!(Route::parse(&json!({})).unwrap().is_open());
}

#[test]
fn unknown_things_are_errors_that_name_the_known() {
    check_error(&json!({"anny": []}), "route at its top: unknown key `anny`; known are any, all, exclude");
    check_error(
        &json!({"any": ["knd:lost"]}),
        "route at `any[0]`: unknown tag key `knd` in `knd:lost`; known are kind, animal, sex, city, home, town, breed, colour, flag, has, source, platform",
    );
    check_error(
        &json!({"all": [{"not": "sex:male"}]}),
        "route at `all[0].not`: unknown value `male` of `sex`; known are m, f, unknown",
    );
    check_error(
        &json!({"all": [{"regex": "x"}]}),
        "route at `all[0]`: unknown key `regex`; known are any, all, not, phone, text, place, name, breed, kind, animal, sex, city, home, town, colour, flag, has, source, platform",
    );
}

#[test]
fn what_could_never_match_or_always_would_is_an_error() {
    check_error(
        &json!({"any": []}),
        "route at `any`: the list is empty, so nothing could ever match; remove it or fill it",
    );
    check_error(
        &json!({"any": [{"text": ""}]}),
        "route at `any[0].text`: the expression // is not valid: it is empty and would match everything",
    );
    check_error(
        &json!({"any": [{"text": "щенк?.*|"}]}),
        "route at `any[0].text`: the expression /щенк?.*|/ is not valid: it matches every text",
    );
    check_error(
        &json!(["kind:lost"]),
        "route at its top: expected an object with `any`, `all` or `exclude`, got a list",
    );
    check_error(
        &json!({"any": "kind:lost"}),
        "route at `any`: expected a list of conditions, got the string `kind:lost`",
    );
    check_error(
        &json!({"any": [{}]}),
        "route at `any[0]`: expected an object with exactly one key, got an object with 0 keys",
    );
    check_error(
        &json!({"any": ["lost"]}),
        "route at `any[0]`: expected a tag of the form `key:value`, got `lost`",
    );
}

#[test]
fn bad_and_huge_expressions_are_errors() {
    assert!(matches!(Route::parse(&json!({"any": [{"text": "("}]})), Err(RouteError::BadRegex { .. })));
    assert!(matches!(
        Route::parse(&json!({"any": [{"text": "(\\w{900}){900}"}]})),
        Err(RouteError::BadRegex { .. })
    ));
    let long = "а".repeat(ROUTE_REGEX_MAX + 1);
    assert!(matches!(Route::parse(&json!({"any": [{"text": long}]})), Err(RouteError::TooMuch { .. })));
}

#[test]
fn depth_and_number_are_bounded() {
    let mut deep = json!("kind:lost");
    for _ in 0..=ROUTE_DEPTH_MAX {
        deep = json!({"not": deep});
    }
    assert!(matches!(Route::parse(&json!({"any": [deep]})), Err(RouteError::TooMuch { .. })));
    let many = vec!["kind:lost"; ROUTE_CONDITIONS_MAX + 1];
    assert!(matches!(Route::parse(&json!({"any": many})), Err(RouteError::TooMuch { .. })));
}

#[test]
fn a_route_is_written_as_it_was_read() {
    let written = json!({"any": ["kind:lost"], "exclude": [{"text": "реклам"}]});
    let route: Route = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&route).unwrap(), written);
    assert_eq!(serde_json::to_value(Route::default()).unwrap(), json!({}));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["kind:lost", "city:*", "sex:x", "has:phone"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(vec!["any", "all", "exclude", "not", "text", "kind", "zzz"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..3).prop_map(|entries| Value::Object(
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_a_route_or_an_error(written in any_json(), text in "\\PC{0,80}") {
        if let Ok(route) = Route::parse(&written) {
            let facts = facts();
            let tags = tags(&facts, TagContext::default());
            let subject = Subject { tags: &tags, facts: &facts, text: &text };
            prop_assert_eq!(route.check(&subject), route.check(&subject));
            prop_assert_eq!(route.is_open(), written.as_object().is_some_and(serde_json::Map::is_empty));
        }
    }
}

#[test]
fn a_route_knows_whether_it_asks_for_another_kind_than_lost() {
    for (route, asks) in [
        (json!({}), false),
        (json!({"any": ["kind:lost"]}), false),
        (json!({"any": ["kind:lost", "kind:found"]}), true),
        (json!({"all": [{"kind": ["reunited"]}, "animal:dog"]}), true),
        (json!({"all": [{"not": "kind:lost"}]}), true),
        (json!({"any": ["animal:cat"], "exclude": ["kind:ad"]}), false),
    ] {
        assert_eq!(Route::parse(&route).unwrap().asks_beyond_lost(), asks, "{route}");
    }
}
