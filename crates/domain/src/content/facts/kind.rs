//! What the post is for: weighted patterns vote, then a few named decisions settle what votes cannot.
//! It must not know the animal, the place or the case.

use std::sync::LazyLock;

use super::phones::Numbers;
use crate::content::lexicon::lexicon;
use crate::content::pattern::{Hit, Matcher, Rule};
use crate::content::tokens::{Reading, TokenKind};
use crate::content::{Evidence, Fact, Kind};

/// What a pattern speaks for. Most name a kind; the rest are circumstances that decisions look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Is(Kind),
    /// Somebody has the animal.
    Held,
    /// The owner is called or looked for.
    OwnerCall,
    /// The search goes on although something was found.
    StillMissing,
    /// Money is asked for.
    Money,
    /// Facts of a profile: health, habits, terms.
    Profile,
}

use Kind::{Ad, Adoption, Found, Fundraising, Lost, News, Other, Reunited, Sighting};
use Sign::{Held, Is, Money, OwnerCall, Profile, StillMissing};

const fn rule(name: &'static str, value: Sign, weight: i32, pattern: &'static str) -> Rule<Sign> {
    Rule { name, value, weight, pattern }
}

/// The table of the family: one line a rule.
pub const RULES: &[Rule<Sign>] = &[
    // -- lost
    rule(
        "kind.lost.verb",
        Is(Lost),
        6,
        "<!кто|кого-то|кого @lost_v !2:аппетит|зрение|слух|голос|связь|интернет",
    ),
    rule("kind.lost.escaped", Is(Lost), 5, "<!кто|едва|чуть @escape_v !2:домой|хозяевам|хозяину"),
    rule(
        "kind.lost.left",
        Is(Lost),
        3,
        "<!кто|хозяева|хозяйка|хозяин|мы @leave_v !2:домой|семью|хозяевам|замуж|радугу|отпуск|декрет",
    ),
    rule("kind.lost.left_and_not_back", Is(Lost), 5, "@leave_v ~5 не @vanish_neg|@lost_v"),
    rule("kind.lost.not_back", Is(Lost), 4, "не @vanish_neg !3:@owner|обратно|никто"),
    rule("kind.lost.help_find", Is(Lost), 7, "@help ~2 @find_inf !2:@owner|дом|семью|родителей|новый|новых"),
    rule("kind.lost.seek_animal", Is(Lost), 5, "@seek ~3-@owner|дом|семью|передержку|для @animal"),
    rule("kind.lost.seek_name", Is(Lost), 3, "ищем|ищу ~1 @our @capital"),
    rule("kind.lost.owner_lost", Is(Lost), 5, "<!кто|вы|никто|кто-то|может|ктото|не|не @lost_t ~3 @animal"),
    rule("kind.lost.reward", Is(Lost), 3, "@reward"),
    rule("kind.lost.give_back", Is(Lost), 3, "верните|вернет|вернете|вернуть !2:@owner|средства|деньги"),
    rule(
        "kind.lost.if_seen",
        Is(Lost),
        3,
        "если|кто|вдруг|может|ктото|хто|кем ~2 @see_v|увидите|встретите|заметите|увидит|встретит|күрде",
    ),
    rule("kind.lost.seen_or_heard", Is(Lost), 2, "любая|любую|любой информация|информацию|информации"),
    rule("kind.lost.gone_since", Is(Lost), 4, "нет с|со|уже|дома"),
    rule(
        "kind.lost.searched",
        Is(Lost),
        2,
        "обошли|опросили|расклеили|оббегали|обыскали|осмотрели|объездили|прочесали|облазили|оклеили",
    ),
    rule(
        "kind.lost.waits",
        Is(Lost),
        2,
        "ждем|ждут|скучаем|переживаем|переживает|плачем|плачут|плачет|слезах|умоляем|умоляю|рыдает",
    ),
    rule("kind.lost.stolen", Is(Lost), 3, "украли|похитили|увели|угнали"),
    rule(
        "kind.lost.could_be",
        Is(Lost),
        2,
        "мог|могла|может ~2 забежать|уйти|убежать|прятаться|забиться|сидеть|двигаться|находиться|быть|сесть|забрести",
    ),
    rule("kind.lost.noun", Is(Lost), 3, "пропажа|беда|пропажу"),
    rule("kind.lost.more_phone", Is(Lost), 5, "@more ~1 @phone_word"),
    rule("kind.lost.extra_for_search", Is(Lost), 3, "@addition ~2 к|по|про|наводку|информацию"),
    rule("kind.lost.to_post_about", Is(Lost), 3, "к посту|объявлению про|о|об"),
    rule(
        "kind.lost.days_without",
        Is(Lost),
        5,
        "недели|дней|неделю|неделя|день|месяц|дня|сутки|месяца без @capital",
    ),
    rule("kind.lost.help_catch", Is(Lost), 2, "@help"),
    rule(
        "kind.lost.search_goes_on",
        StillMissing,
        6,
        "продолжаем|продолжаются|продолжается|продолжаю поиски|поиск|искать",
    ),
    rule("kind.lost.still_not_here", StillMissing, 7, "а ~1 вот ~3 пока|еще нет"),
    rule(
        "kind.lost.still_seek",
        StillMissing,
        4,
        "все|пока|по-прежнему|еще|до ~1 еще|ищем|сих|пор ~2 ищем|нет|не",
    ),
    rule(
        "kind.lost.not_found",
        StillMissing,
        5,
        "пока|еще|так|пор ~2 не @returned_v|нашли|найден|найдена|нашлась|нашелся !2:@owner",
    ),
    // -- found
    rule("kind.found.participle_animal", Is(Found), 6, "@found_p ~5 @animal"),
    rule("kind.found.animal_participle", Is(Found), 5, "@animal ~4 @found_p"),
    rule("kind.found.participle", Is(Found), 4, "@found_p !1:дома|хозяин|хозяева|дом"),
    rule("kind.found.verb_animal", Is(Found), 5, "<!ее|его @found_v ~5 @animal"),
    rule(
        "kind.found.animal_verb",
        Is(Found),
        4,
        "@animal ~3 @found_v !2:@owner|дом|семью|новый|свой|свою|своих",
    ),
    rule("kind.found.picked", Is(Found), 4, "@pick_v"),
    rule("kind.found.strayed", Is(Found), 6, "@stray_v"),
    rule("kind.found.came", Is(Found), 2, "@come_v ~3 к|на|во|в|нам"),
    rule(
        "kind.found.brought",
        Is(Found),
        4,
        "принесли|привезли|привезла|принес|доставили ~3 нам|клинику|ветклинику|приют|балкон",
    ),
    rule("kind.found.took_home", Is(Found), 4, "@take_v ~3 @take_home"),
    rule(
        "kind.found.give_back",
        Is(Found),
        6,
        "отдам|отдадим|верну|вернем|передам|передадим|отдаю|отдать|вернуть ~3-@new_owner @owner",
    ),
    rule(
        "kind.found.give_by_photo",
        Is(Found),
        5,
        "отдам|отдадим|отдаем|верну по фото|документам|ветпаспорту|приметам",
    ),
    rule(
        "kind.found.chip_empty",
        Is(Found),
        2,
        "чип|чипа|клеймо|клейма|адресника|адресник нет|пустой|проверили|отсутствует|не",
    ),
    rule(
        "kind.found.clearly_home",
        Is(Found),
        2,
        "явно|видно|похоже ~2 домашний|домашняя|ухоженный|ухоженая|потерялся|потерялась|чей-то|чья-то",
    ),
    rule("kind.found.recognise", Is(Found), 3, "помогите|просим ~1 опознать|узнать"),
    rule("kind.found.waiting_owner", Is(Found), 3, "ждет|ждем|ждут|жду ~2-@new_owner @owner"),
    rule("kind.found.owners_waits", Is(Found), 3, "@owner ждет|ждем|жду|ждут"),
    rule(
        "kind.found.if_none",
        Is(Found),
        2,
        "если ~5 не ~2 найдется|найдутся|объявится|нет|никого ~4 пристраивать|пристрой|отвезу|отдам",
    ),
    rule("kind.found.foundling", Is(Found), 3, "найденыш|найденыша|потеряшка|потеряшку|потеряха"),
    rule(
        "kind.found.owner_phrase",
        OwnerCall,
        6,
        "@seek ~3-@new_owner|дом|нового|новых|им|ему|ей @owner|бывших|старых|прежних",
    ),
    rule(
        "kind.found.seek3_old_owner",
        OwnerCall,
        6,
        "ищет|ищут|ищется|разыскивает ~2-@new_owner @old_owner @owner",
    ),
    rule("kind.found.seek3_owner", OwnerCall, 2, "ищет|ищут ~1-@new_owner @owner"),
    rule(
        "kind.found.find_owner",
        OwnerCall,
        6,
        "найти|разыскать|отыскать|найдем|ищутся|ищется|нужны ~1-@new_owner @owner",
    ),
    rule("kind.found.owner_respond", OwnerCall, 5, "<!если @owner ~2 @respond"),
    rule("kind.found.respond_owner", OwnerCall, 5, "@respond ~2 @owner"),
    rule("kind.found.whose", OwnerCall, 3, "@whose"),
    rule("kind.found.who_lost", OwnerCall, 4, "@who ~2 @last_loser !2:надежду|веру|совесть"),
    rule(
        "kind.found.at_someones",
        OwnerCall,
        2,
        "у кого-то|кого|кого-нибудь ~3 @lost_v|украли|сбежал|сбежала|убежал|убежала|улетел|улетела|@escape_v",
    ),
    rule("kind.found.respond", OwnerCall, 2, "отзовитесь|откликнитесь|отзовись|объявитесь|ау|найдись"),
    rule(
        "kind.found.maybe_someone",
        OwnerCall,
        3,
        "может|вдруг|может, ~1 кто-то|кто|чей|чья|ищут|чей-то|ищет",
    ),
    rule(
        "kind.held.at_us",
        Held,
        3,
        "сейчас|пока|теперь|временно|находится|живет|сидит|ночует|ночевал|ночевала|дома|собака|кошка|кот|пес ~3 у меня|нас",
    ),
    rule("kind.held.foster", Held, 2, "на передержке|карантине|стационаре"),
    rule("kind.held.took", Held, 4, "@take_v ~3 @take_home"),
    rule(
        "kind.held.fed",
        Held,
        2,
        "накормлен|накормлена|накормили|накормила|покормили|отмыли|обогрели|отогрели|приютили|приютила|приютил|тепле|кормим|поселили|пристроили",
    ),
    rule(
        "kind.held.keeps",
        Held,
        3,
        "держим|держу|держит|держат|оставить|задержали|оставила|заперли|закрыли !3:могу|лапу|хвост|порядок|уши",
    ),
    rule("kind.held.give", Held, 4, "отдам|отдадим|верну|вернем|передам ~3 @owner"),
    rule(
        "kind.held.shelter",
        Held,
        2,
        "в|во ~2 коробке|подъезде|гараже|вольере|приюте|клинике|офисе|квартире|тепле|сарае",
    ),
    rule(
        "kind.held.cannot_keep",
        Held,
        4,
        "надолго|оставить|долго|держать ~3 не|могу|можем ~2 могу|можем|оставить|держать|смогу",
    ),
    // -- sighting
    rule(
        "kind.sighting.saw_animal",
        Is(Sighting),
        5,
        "<!кто|если|вдруг|мог|никто|где|может|ктото|вы @see_v ~5 @animal",
    ),
    rule("kind.sighting.animal_seen", Is(Sighting), 4, "@animal ~5-кто|никто|если|где @see_v"),
    rule("kind.sighting.saw", Is(Sighting), 2, "<!кто|если|вдруг|мог|никто|где|может|ктото|вы @see_v"),
    rule("kind.sighting.animal_roams", Is(Sighting), 5, "@animal ~6 @roam_v"),
    rule("kind.sighting.roams_animal", Is(Sighting), 5, "@roam_v ~5 @animal"),
    rule("kind.sighting.roams", Is(Sighting), 2, "бегает|бродит|мечется|скитается|бегают"),
    rule("kind.sighting.day_by_day", Is(Sighting), 3, "день|неделю|сутки|дня|неделя|дней|ночь ~3 @roam_v"),
    rule(
        "kind.sighting.not_caught",
        Is(Sighting),
        3,
        "не ~1 @wont_come|дается|подходит|удалось|смогла|смогли|смог",
    ),
    rule("kind.sighting.not_yours", Is(Sighting), 3, "не ваш|ваша|ваше|ваши|это|он|она"),
    rule("kind.sighting.noticed_tag", Is(Sighting), 3, "@see_p"),
    rule("kind.sighting.by_passer", Is(Sighting), 3, "мимо|проезжал|проезжала|проходила|проходил|проезжали"),
    // -- reunited
    rule(
        "kind.reunited.returned",
        Is(Reunited),
        6,
        "<!не|если|когда|пока|чтобы|чтоб|бы|случайно @returned_v !3:для|случайно|бы",
    ),
    rule(
        "kind.reunited.owner_found",
        Is(Reunited),
        9,
        "@owner ~2 @returned_v|объявилась|объявился|объявились|найден|найдена|найдены|нашел|нашла|нашли|отозвались|отозвался|откликнулись|откликнулся|забрали|забрал|забрала",
    ),
    rule(
        "kind.reunited.found_owner",
        Is(Reunited),
        9,
        "@returned_v|нашли|нашел|нашла|объявились|забрали|забрал|забрала|приехали ~2 @owner|родители !2:и|не",
    ),
    rule(
        "kind.reunited.back_to_owner",
        Is(Reunited),
        8,
        "вернули|вернулся|вернулась|уехал|уехала|передали|передан|передана|отдали|воссоединился|воссоединилась|вернули|отправился|отправилась|возвращен|возвращена|возвращается ~2 @owner|хозяевам|семью|семье|домой|родителям",
    ),
    rule(
        "kind.reunited.gone_home",
        Is(Reunited),
        8,
        "@went_home ~3 домой|семью|дом|хозяйке|хозяевам|хозяину|маме|хозяевами|хозяину",
    ),
    rule("kind.reunited.name_home", Is(Reunited), 5, "^ @capital ~2-@animal|ест|сидит дома"),
    rule(
        "kind.reunited.already_home",
        Is(Reunited),
        6,
        "уже|снова|теперь|опять|наконец|наконец-то|благополучно|она|он|малыш|кот|кошка|собака|пес|песик ~1-не дома !2:ест|кормим|@owner",
    ),
    rule(
        "kind.reunited.home_word",
        Is(Reunited),
        2,
        "<!не|у|из|от|до|возле|около|во дворе|этого|нашего|нет|сидит|подъезда|угла|крыше|частного дома !1:@number|у|сидит",
    ),
    rule(
        "kind.reunited.happy_home",
        Is(Reunited),
        4,
        "жив|жива|живой|живая|здоров|здорова|цел|цела ~3 дома|здоров|здорова|зол|невредим|невредима",
    ),
    rule("kind.reunited.again_with_us", Is(Reunited), 6, "снова|опять|теперь с|у нами|нас|дома"),
    rule("kind.reunited.with_us", Is(Reunited), 2, "@capital у нас"),
    rule(
        "kind.reunited.came_self",
        Is(Reunited),
        5,
        "сам|сама|самостоятельно ~1 пришел|пришла|вернулся|вернулась|явился|явилась|прибежал|прибежала|нашлась|нашелся|приползла|приполз",
    ),
    rule(
        "kind.reunited.came_self_after",
        Is(Reunited),
        5,
        "пришел|пришла|вернулся|вернулась|явился|явилась|прибежал|прибежала ~1 сам|сама|самостоятельно",
    ),
    rule("kind.reunited.adopted", Is(Reunited), 8, "<!будет|будут|срочно|не|быть|чтобы @adopted_p"),
    rule(
        "kind.reunited.gained_home",
        Is(Reunited),
        8,
        "@gain_v ~3-@animal дом|семью|хозяев|хозяина|хозяйку|ручки|маму|домик",
    ),
    rule("kind.reunited.kept", Is(Reunited), 7, "@keep_v ~2 у|себе|с ~0 себе|себя|нас|нами|мной|у|меня"),
    rule("kind.reunited.kept_self", Is(Reunited), 7, "@keep_v себе"),
    rule(
        "kind.reunited.all_clear",
        Is(Reunited),
        6,
        "отбой|воссоединение|воссоединились|хэппи-энд|хеппи-энд",
    ),
    rule("kind.reunited.hooray", Is(Reunited), 3, "ура"),
    rule("kind.reunited.close", Is(Reunited), 4, "@close_v !3:сбор|счет|долг|половину|дверь|калитку"),
    rule(
        "kind.reunited.close_post",
        Is(Reunited),
        4,
        "пост|поиск|поиски|объявление|запись ~2 @close_v|неактуально|неактуален",
    ),
    rule(
        "kind.reunited.no_more_calls",
        Is(Reunited),
        5,
        "не ~1 звоните|звонить|ищем|ищите|актуально ~1 больше|уже",
    ),
    rule("kind.reunited.more_not", Is(Reunited), 5, "больше ~1 не ~1 звоните|звонить|ищем|актуально|ищите"),
    rule("kind.reunited.thanks_all", Is(Reunited), 4, "всем|каждому|огромное|большое|низкий ~2 @thanks"),
    rule(
        "kind.reunited.thanks",
        Is(Reunited),
        4,
        "@thanks ~2 всем|каждому|за|огромное|большое|что|группе|волонтерам|неравнодушным|людям !3:внимание",
    ),
    rule(
        "kind.reunited.turned_out",
        Is(Reunited),
        4,
        "оказался|оказалась !2:домашним|домашней|улице|добрым|в|на|ласковым|очень|здесь",
    ),
    rule("kind.reunited.is_named", Is(Reunited), 2, "это @capital"),
    rule(
        "kind.reunited.rescued",
        Is(Reunited),
        3,
        "отловили|извлечен|извлечена|вызволили|поймали|спасли|достали|вытащили|сняли ~3 !1:@owner",
    ),
    rule(
        "kind.reunited.new_life",
        Is(Reunited),
        4,
        "теперь|живет ~2 у него|нее|ней|новой|новом|своя|свой|них ~2 свой|своя|семье|доме|двор|дом|семья|хозяйка|хозяин",
    ),
    rule("kind.reunited.new_home_in", Is(Reunited), 5, "в ~1 новом|новой|любящей|своей доме|семье"),
    rule(
        "kind.reunited.taken_family",
        Is(Reunited),
        4,
        "забрали|забрала|забрал ~1 родители|хозяйка|хозяева|семья|бабушка|дедушка|хозяин|владельцы|домой",
    ),
    // -- adoption
    rule(
        "kind.adoption.seeks_home",
        Is(Adoption),
        8,
        "ищет|ищут|мечтает|ждет|ждут|ищем|ищу|нужен|нужна|ищит|мечтают|нужны|найти|ищется ~4-@old_owner|пропал|пропала|когда|хозяева дом|семью|домик|доме|семье|ручки|маму|мамочку|людей|человека|семья|корабль|родителей|дома|папу|друга|руки",
    ),
    rule(
        "kind.adoption.seeks_owner",
        Is(Adoption),
        5,
        "ищет|ищут|ждет|ждут|мечтает ~2-@old_owner @owner|хозяине",
    ),
    rule("kind.adoption.new_owner", Is(Adoption), 6, "@seek_any|ждет ~1 @new_owner ~1 @owner|людей|семью"),
    rule("kind.adoption.good_hands", Is(Adoption), 8, "@good @hands"),
    rule("kind.adoption.hands_good", Is(Adoption), 5, "в|во ~2 @hands !1:не"),
    rule("kind.adoption.give_animal", Is(Adoption), 7, "@give ~4-@owner @animal"),
    rule("kind.adoption.give", Is(Adoption), 5, "@give !3:@owner|фото|себя|хозяевам|честь|долг|животе"),
    rule("kind.adoption.gift", Is(Adoption), 4, "<!возьму|приму в дар"),
    rule("kind.adoption.free", Is(Adoption), 3, "даром|безвозмездно"),
    rule("kind.adoption.noun", Is(Adoption), 6, "@adoption_n"),
    rule("kind.adoption.meet", Is(Adoption), 5, "@meet"),
    rule("kind.adoption.take", Is(Adoption), 4, "@call_take !2:@owner|свою|своего|пока"),
    rule(
        "kind.adoption.ready",
        Is(Adoption),
        7,
        "готов|готова|готовы|можно|пора|мечтает ~2 ехать|переехать|дом|домой|переезду|забрать|семью|доме",
    ),
    rule(
        "kind.adoption.contract",
        Is(Adoption),
        4,
        "договор|договору|договором|самовывоз|смотрины|самовыгул",
    ),
    rule("kind.adoption.terms", Is(Adoption), 3, "не предлагать|предлагайте|просите"),
    rule("kind.adoption.curator", Is(Adoption), 4, "куратор|куратору|куратором|пристраивает"),
    rule("kind.adoption.shelter", Is(Adoption), 3, "приют|приюте|приюта !4:просит|нуждается|помощи"),
    rule("kind.adoption.deliver", Is(Adoption), 3, "привезем|привезу|доставим|довезем|доставка|отвезем"),
    rule(
        "kind.adoption.who_takes",
        Is(Adoption),
        4,
        "кому|кто|кто-нибудь ~2 нужен|нужна|приютит|заберет|возьмет|котенка|щенка|котеночка|готов|хочет|заказывал",
    ),
    rule("kind.adoption.tag_home", Is(Adoption), 3, "ищет|ищут дом|семью|хозяина|хозяев"),
    rule(
        "kind.adoption.profile_health",
        Profile,
        2,
        "привит|привита|привиты|вакцинирован|вакцинирована|прививки|обработан|обработана|обработаны|чипирован|чип",
    ),
    rule(
        "kind.adoption.profile_neutered",
        Profile,
        2,
        "стерилизована|стерилизован|стерильна|кастрирован|кастрирована|стерилизуем|кастрируем|кастрация|стерилизация",
    ),
    rule(
        "kind.adoption.profile_tray",
        Profile,
        2,
        "лоток|лотку|лотке|пеленку|когтеточка|когтеточку|когтеточке|поводке|вольере",
    ),
    rule(
        "kind.adoption.profile_habits",
        Profile,
        2,
        "характер|дружит|ладит|равнодушен|равнодушна|гоняет|кушает|кушают|спит|мурчит|ласковая|ласковый|знает|едят|приучен|приучена|приучены",
    ),
    rule("kind.adoption.profile_card", Profile, 2, "возраст|рост|вес|окрас|пол"),
    rule("kind.adoption.profile_story", Profile, 1, "передержке|приюте|улице|выросла|родилась|родился"),
    // -- fundraising
    rule(
        "kind.money.collect",
        Money,
        5,
        "<!идет|по|дата|место @collect !2:группы|вещи|сведения|информацию|информации",
    ),
    rule("kind.money.collect_on", Money, 5, "@collect ~2 на|средств|закрыт|открыт|денег"),
    rule("kind.money.card", Money, 3, "@card"),
    rule("kind.money.transfer", Money, 3, "@transfer"),
    rule("kind.money.report", Money, 3, "@report"),
    rule("kind.money.treat", Money, 2, "@treat"),
    rule("kind.money.need_treat", Money, 4, "@need ~3 @treat|деньги|средства|помощь|сумма|корм|лекарства"),
    rule("kind.money.pay", Money, 3, "@pay"),
    rule(
        "kind.money.help",
        Money,
        6,
        "@help|помочь|поддержать|поддержите ~3 @help_money|оплатить|собрать|оплате",
    ),
    rule(
        "kind.money.any_sum",
        Money,
        5,
        "любая|любой|каждая|каждый|любую|даже ~1 сумма|копейка|рубль|копеечка|копейку|сто|сумму|рублей",
    ),
    rule("kind.money.sum", Money, 1, "@money"),
    rule(
        "kind.money.debt",
        Money,
        3,
        "долг|долги|долга|долгов|осталось ~2 @number|оплатить|собрать|клинике|клиники",
    ),
    rule(
        "kind.money.left",
        Money,
        3,
        "осталось|собрано|нужно|закрыли|собрали ~2 @number|половину|оплатить|собрать",
    ),
    rule(
        "kind.money.shelter_needs",
        Money,
        4,
        "приют|приюту|приюта ~2 просит|нуждается|нужна|нужны|помощи|помощь|помогите",
    ),
    // -- advertising
    rule("kind.ad.sell", Is(Ad), 8, "@sell !3:нет"),
    rule("kind.ad.strong", Is(Ad), 6, "@ad_strong"),
    rule("kind.ad.weak", Is(Ad), 2, "@ad_weak"),
    rule("kind.ad.price", Is(Ad), 3, "от|цена|всего|стоимость|за ~1 @number ~1 руб|рублей|р|₽|тыс|минут"),
    rule("kind.ad.first_free", Is(Ad), 3, "первое|первая|первый ~1 бесплатно|занятие|консультация|осмотр"),
    rule(
        "kind.ad.book",
        Is(Ad),
        4,
        "запись|записаться|записывайтесь|бронируйте|закажите|заказать ~2 по|на|телефону|заранее|@number",
    ),
    rule("kind.ad.specialist", Is(Ad), 3, "кинолог|грумер|зоопсихолог|ветеринар|заводчик|питомник"),
    rule(
        "kind.ad.we_offer",
        Is(Ad),
        4,
        "предлагаем|предлагает|приглашаем|приглашает|открылся|работаем|принимаем ~3 услуги|собак|кошек|вас|заказы|ежедневно|питомцев|салон|клиника|магазин",
    ),
    // -- news
    rule("kind.news.word", Is(News), 2, "@news"),
    rule(
        "kind.news.reports",
        Is(News),
        4,
        "как|об|по ~2 сообщает|сообщили|данным|рассказали|словам|информации",
    ),
    rule(
        "kind.news.in_city_verb",
        Is(News),
        3,
        "в @capital ~2 открыли|изменился|задержали|спасли|появится|появился|запустили|построят|утвердили|прошел|прошла|приняли|начали|пройдет|состоится",
    ),
    rule("kind.news.source", Is(News), 4, "источник|подробности|подробнее ~1 на|в|сайте|http|по"),
    // -- other
    rule("kind.other.ask", Is(Other), 6, "@ask !3:чей|чья|хозяев|хозяин"),
    rule(
        "kind.other.what_to_do",
        Is(Other),
        4,
        "что|как|куда ~1 делать|быть|обратиться|обращаться|поступить",
    ),
    rule(
        "kind.other.rules",
        Is(Other),
        8,
        "правила|правилами ~2 группы|сообщества|публикации|размещения|поведения|паблика",
    ),
    rule(
        "kind.other.admin",
        Is(Other),
        4,
        "администрация|админ|модератор|админы|модераторы ~1 группы|сообщества|паблика",
    ),
    rule("kind.other.warn", Is(Other), 5, "@warn"),
    rule(
        "kind.other.careful",
        Is(Other),
        3,
        "осторожно|осторожней|внимание|берегите|будьте ~2 бдительны|осторожны|мошенники|собак|питомцев|отрава|догхантеры|осторожней",
    ),
    rule("kind.other.wanted", Is(Other), 7, "возьму|приму|куплю|хочу|хотим|возьмем|заберу ~4 @animal"),
    rule("kind.other.wanted_gift", Is(Other), 6, "возьму|приму|возьмем ~4 дар|руки"),
    rule("kind.other.foster", Is(Other), 6, "ищу|ищем|нужна|нужна|срочно|требуется ~2 @foster"),
    rule(
        "kind.other.greet",
        Is(Other),
        5,
        "поздравляем|поздравляю|праздником|добро ~2 с|днем|вас|праздником|новым|пожаловать|всех",
    ),
];

static MATCHER: LazyLock<Matcher> = LazyLock::new(|| Matcher::new(lexicon(), RULES));

/// A kind needs this much to be more than a passing word.
const DECISIVE: f32 = 4.0;
/// The own text alone decides from this score on; the reposted texts are only asked below it.
const OWN_DECIDES: f32 = 5.0;
/// A hit in the first sentence: people open with what matters.
const FIRST_SENTENCE: f32 = 1.3;
/// A hit in a hashtag: tags are kept when the story has moved on.
const HASHTAG: f32 = 0.6;
/// A loss in a question is somebody else's loss.
const QUESTION: f32 = 0.35;
/// Words that may stand beside a link that is the whole post.
const LINK_WORDS_MAX: usize = 3;

/// The kind and the rule hits behind it, which other families use to find the event.
#[derive(Debug)]
pub struct Verdict {
    pub kind: Fact<Kind>,
    /// Sentences in which the event itself is told.
    pub event: Vec<u32>,
}

#[derive(Debug, Default, Clone)]
struct Votes {
    kinds: [f32; 11],
    held: f32,
    owner: f32,
    still: f32,
    money: f32,
    profile: f32,
}

impl Votes {
    fn of(&self, kind: Kind) -> f32 {
        self.kinds[kind as usize]
    }

    fn add(&mut self, sign: Sign, weight: f32) {
        match sign {
            Is(kind) => self.kinds[kind as usize] += weight,
            Held => self.held += weight,
            OwnerCall => self.owner += weight,
            StillMissing => self.still += weight,
            Money => self.money += weight,
            Profile => self.profile += weight,
        }
    }
}

pub fn kind(reading: &Reading<'_>, numbers: &Numbers) -> Verdict {
    let own_words = words(reading, |text| text == 0);
    let all_words = words(reading, |_| true);
    let linked = reading.tokens.iter().any(|token| token.kind == TokenKind::Link || token.mention);
    if all_words == 0 {
        let kind = if linked { Kind::Link } else { Kind::Empty };
        return Verdict { kind: Fact::silent(kind), event: Vec::new() };
    }
    let hits = MATCHER.hits(reading);
    let own = votes(reading, numbers, &hits, |text| text == 0);
    let mut decided = settle(&own, own_words, false);
    let mut used_own = true;
    if (decided.1 < OWN_DECIDES || decided.0 == Kind::Other) && all_words > own_words {
        let all = votes(reading, numbers, &hits, |_| true);
        decided = settle(&all, all_words, linked);
        used_own = false;
    } else if decided.1 < DECISIVE {
        decided = settle(&own, own_words, linked);
    }
    let evidence = evidence(reading, &hits, decided.0, used_own);
    Verdict { kind: Fact { value: decided.0, evidence }, event: events(reading, &hits, decided.0) }
}

fn words(reading: &Reading<'_>, of: impl Fn(u8) -> bool) -> usize {
    let tokens = reading.tokens.iter().filter(|token| of(token.text));
    tokens.filter(|token| token.kind != TokenKind::Link && !token.mention).count()
}

/// The best hit of every rule counts once.
fn votes(reading: &Reading<'_>, numbers: &Numbers, hits: &[Hit], of: impl Fn(u8) -> bool) -> Votes {
    let mut best = vec![0.0_f32; RULES.len()];
    for hit in hits.iter().filter(|hit| of(reading.tokens[hit.first].text)) {
        let weight = weigh(reading, hit);
        best[hit.rule] = best[hit.rule].max(weight);
    }
    let mut votes = Votes::default();
    for (rule, weight) in RULES.iter().zip(best).filter(|(_, weight)| *weight > 0.0) {
        votes.add(rule.value, weight);
    }
    news_words(reading, hits, &of, &mut votes);
    if numbers.cards.iter().any(|token| of(reading.tokens[*token].text)) {
        votes.money += 6.0;
    }
    if numbers.money.iter().any(|span| of(reading.tokens[span.0].text)) {
        votes.money += 4.0;
    }
    votes
}

/// News and advertising are told by how many of their words there are, not by one.
fn news_words(reading: &Reading<'_>, hits: &[Hit], of: &impl Fn(u8) -> bool, votes: &mut Votes) {
    let count = |name: &str| {
        let hits =
            hits.iter().filter(|hit| RULES[hit.rule].name == name && of(reading.tokens[hit.first].text));
        (hits.count().saturating_sub(1)).min(5) as f32
    };
    votes.kinds[News as usize] += count("kind.news.word") * 1.5;
    votes.kinds[Ad as usize] += count("kind.ad.weak") * 1.5;
    votes.profile += count("kind.adoption.profile_habits");
}

fn weigh(reading: &Reading<'_>, hit: &Hit) -> f32 {
    let token = &reading.tokens[hit.first];
    let rule = &RULES[hit.rule];
    let mut weight = rule.weight as f32;
    if token.tag {
        weight *= HASHTAG;
    } else if reading.opens(hit.first) {
        weight *= FIRST_SENTENCE;
    }
    if rule.value == Is(Lost) && reading.asks(hit.first) && rule.name != "kind.lost.help_find" {
        weight *= QUESTION;
    }
    weight
}

/// Turns votes into a kind and how sure it is.
fn settle(votes: &Votes, words: usize, linked: bool) -> (Kind, f32) {
    let mut scores = votes.clone();
    let held = votes.held >= 3.0;
    let reunited = reunited(votes);
    let adoption = adoption(votes, words);
    scores.kinds[Reunited as usize] = reunited;
    scores.kinds[Adoption as usize] = adoption;
    scores.kinds[Fundraising as usize] = fundraising(votes);
    scores.kinds[Found as usize] = found(votes, held);
    scores.kinds[Sighting as usize] = sighting(votes, held);
    scores.kinds[Lost as usize] = lost(votes);
    scores.kinds[News as usize] = news(votes, words);
    let order = [Reunited, Fundraising, Lost, Found, Sighting, Adoption, Ad, Other, News];
    let mut best = (Other, 0.0_f32);
    for kind in order {
        if scores.of(kind) > best.1 {
            best = (kind, scores.of(kind));
        }
    }
    if linked && words <= LINK_WORDS_MAX && best.1 < DECISIVE {
        return (Kind::Link, DECISIVE);
    }
    if best.1 < DECISIVE / 2.0 {
        return (Other, best.1);
    }
    best
}

/// A happy end outweighs the story that it ends, unless the search goes on or somebody still asks for the owner.
fn reunited(votes: &Votes) -> f32 {
    let own = votes.of(Reunited);
    if votes.still >= 6.0 || own < DECISIVE {
        return own * 0.5 - votes.still;
    }
    let open = votes.owner + votes.held * 0.5;
    let story = votes.of(Lost).max(votes.of(Found)) * 0.6;
    own + story
        - if own < 9.0 { open * 1.2 } else { open * 0.5 }
        - if votes.of(Adoption) > own { votes.of(Adoption) } else { 0.0 }
}

/// Stories of adoption begin with a find; a plain call for the owner makes them a find again.
fn adoption(votes: &Votes, words: usize) -> f32 {
    let own = votes.of(Adoption);
    let profile = votes.profile.min(8.0);
    let incident = votes.of(Lost).max(votes.of(Sighting));
    if own < DECISIVE {
        // A profile without a word of what it wants: an animal, its health, its habits, a telephone.
        let bare = own + profile - incident - votes.owner * 1.5 - votes.of(Reunited) - votes.money * 0.5;
        return if profile >= 4.0 && words >= 8 { bare } else { own };
    }
    own + profile * 0.6 + votes.of(Found) * 0.3 - votes.owner * 1.4
}

fn fundraising(votes: &Votes) -> f32 {
    if votes.money < 7.0 {
        return votes.money * 0.5;
    }
    votes.money * 1.2 + votes.of(Adoption).min(4.0) * 0.3
}

fn found(votes: &Votes, held: bool) -> f32 {
    let own = votes.of(Found);
    let signal = own + votes.owner;
    if signal < 2.0 && !(held && votes.of(Sighting) > 0.0) {
        return own;
    }
    let hold = if held { votes.held.min(6.0) } else { 0.0 };
    own + votes.owner * 0.9 + hold + if held { votes.of(Sighting) * 0.5 } else { 0.0 }
}

fn sighting(votes: &Votes, held: bool) -> f32 {
    let own = votes.of(Sighting);
    let found = votes.of(Found);
    if held {
        return own * 0.6;
    }
    if own >= 3.0 || found < 3.0 {
        return own + votes.owner * 0.95 + found * if own >= 4.0 { 0.4 } else { 0.1 };
    }
    own
}

fn lost(votes: &Votes) -> f32 {
    votes.of(Lost) + if votes.of(Lost) > 0.0 || votes.still >= 6.0 { votes.still } else { 0.0 }
        - votes.owner * 0.8
}

fn news(votes: &Votes, words: usize) -> f32 {
    let own = votes.of(News);
    if words < 12 { own * 0.4 } else { own - votes.owner - votes.held * 0.5 }
}

/// The hits that speak for the decided kind, strongest first.
fn evidence(reading: &Reading<'_>, hits: &[Hit], kind: Kind, own: bool) -> Vec<Evidence> {
    const SHOWN: usize = 3;
    let supports = |sign: Sign| match sign {
        Is(other) => other == kind,
        Held => kind == Found,
        OwnerCall => matches!(kind, Found | Sighting),
        StillMissing => kind == Lost,
        Money => kind == Fundraising,
        Profile => kind == Adoption,
    };
    let mut best: Vec<(f32, &Hit)> = hits
        .iter()
        .filter(|hit| supports(RULES[hit.rule].value) && (!own || reading.tokens[hit.first].text == 0))
        .map(|hit| (weigh(reading, hit), hit))
        .collect();
    best.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.first.cmp(&right.1.first)));
    best.dedup_by_key(|hit| hit.1.rule);
    best.iter()
        .take(SHOWN)
        .map(|(_, hit)| reading.evidence(RULES[hit.rule].name, hit.first, hit.last))
        .collect()
}

/// The sentences whose words made the kind: the event is told there.
fn events(reading: &Reading<'_>, hits: &[Hit], kind: Kind) -> Vec<u32> {
    let tells = |sign: Sign| match (sign, kind) {
        (Is(Lost), Lost | Reunited) | (Is(Found), Found | Reunited) => true,
        (Is(Sighting), Sighting | Found) => true,
        (Is(Reunited), Reunited) => true,
        _ => false,
    };
    let mut sentences: Vec<u32> = hits
        .iter()
        .filter(|hit| RULES[hit.rule].weight >= 3 && tells(RULES[hit.rule].value))
        .map(|hit| reading.tokens[hit.first].sentence)
        .collect();
    sentences.dedup();
    sentences
}
